"""A benchmark of four nodes."""

from pathlib import Path

import numpy as np

__all__ = ["write_tiny_webkb"]


def write_tiny_webkb(folder: Path, prefix: str) -> None:
    """Write Geom-GCN's files of a 4-node graph, the nodes out of order."""
    rows = ["2\t0,0\t1", "0\t1,0\t0", "3\t1,1\t0", "1\t0,1\t1"]
    text = "\n".join(["node_id\tfeature\tlabel", *rows]) + "\n"
    (folder / "out1_node_feature_label.txt").write_text(text)
    edges = ["0\t1", "1\t0", "1\t2", "1\t2", "3\t3"]
    text = "\n".join(["node_id\tnode_id", *edges]) + "\n"
    (folder / "out1_graph_edges.txt").write_text(text)
    for number in range(10):
        np.savez(
            folder / f"{prefix}_split_0.6_0.2_{number}.npz",
            train_mask=np.array([1, 1, 0, 0]),
            val_mask=np.array([0, 0, 1, 0]),
            test_mask=np.array([0, 0, 0, 1]),
        )
