"""One graph for many workers: processes of this machine or of many, through Ray.

**A task is one that one process would do as well.** Tables are cut where one process
cuts them, blocks of nodes are predicted as one process predicts some nodes: what comes
back does not depend on how many workers there are, nor on who did what.

**Who dies is replaced.** Tasks are pure: the slice of a worker that was killed is done
again by another. Parts of a prediction are written under another name first, and those
that are there already are not made again.

**A graph travels once, or not at all.** Workers map the files of a store, if they see
its folder; a graph in memory is put into Ray's object store, and each process reads its
arrays there without a copy.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
