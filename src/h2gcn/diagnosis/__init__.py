"""What kind of graph it is and what is doubtful in it, in words and on a page."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
