"""A small network of Keras', for the documentation."""

from __future__ import annotations

import keras
from keras import layers


def digits() -> keras.Model:
    """Digits of 28 by 28 pixels."""
    return keras.Sequential(
        [
            layers.Input((28, 28, 1), name="image"),
            layers.Conv2D(16, 3, strides=2, padding="same", activation="relu", name="conv_0"),
            layers.Conv2D(32, 3, strides=2, padding="same", activation="relu", name="conv_1"),
            layers.Flatten(name="flat"),
            layers.Dense(10, name="head"),
        ],
        name="digits",
    )
