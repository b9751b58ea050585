"""A trained model behind an address: JSON for programs, a page for those who decide.

**Known nodes are predicted once.** `Answers` holds a model and a graph and predicts all
nodes when it is made; what is asked of known nodes is then looked up. What must be
computed for a request (new nodes, reasons) is done in one thread, one after the other,
so that memory is that of one such request.

**A request is data.** Nothing of it is run, written, or used as the name of anything;
its size, its parts and its time are bounded (`Limits`), and what is wrong with it is
one line of JSON. Ids and labels are anybody's text: the page has them as text only.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
