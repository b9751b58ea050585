"""What is run: experiments, protocols, grids, presets, the paper's own figures."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
