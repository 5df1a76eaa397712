"""Encoders that every method shares, and the inputs they read."""

from diffor.encoders.tabular import TabularEncoder, TabularInputs

ENCODERS = {
    "plain": "scaled numbers and category embeddings in a multilayer perceptron",
    "periodic": "the same, with each number also described by trainable waves",
}
"""Encoders by name, with what each does."""


def make_tabular_encoder(name: str, inputs: TabularInputs, width: int, n_layers: int, dropout: float) -> TabularEncoder:
    """Build the encoder that a name stands for, for the columns that were found."""
    if name not in (*ENCODERS, "auto"):
        raise ValueError(f"encoder must be one of auto, {', '.join(ENCODERS)}, however: encoder={name!r}")
    embedding = "none" if name == "plain" else "periodic"
    return TabularEncoder(
        inputs.n_numbers, inputs.category_sizes, embedding=embedding, width=width, n_layers=n_layers, dropout=dropout
    )


__all__ = ["ENCODERS", "TabularEncoder", "TabularInputs", "make_tabular_encoder"]
