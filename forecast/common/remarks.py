"""What libraries say of themselves, which is no user's concern."""

LEAF_SPEC = r"`isinstance\(treespec, LeafSpec\)` is deprecated"
"""Lightning 2.6 and torch's own export walk containers in a way that torch 2.13 calls old."""
