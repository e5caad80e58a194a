"""Functions of JAX for flopwise: ``flopwise profile examples/jax_networks.py:Digits -i 32x28x28x1``."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax


class Digits(nn.Module):
    """A small convolutional network, channels last."""

    @nn.compact
    def __call__(self, images):
        x = nn.relu(nn.Conv(16, (3, 3), strides=2)(images))
        x = nn.relu(nn.Conv(32, (3, 3), strides=2)(x))
        return nn.Dense(10)(x.reshape(x.shape[0], -1))


def smooth(x, kernel):
    """A hundred steps of a filter."""
    return jax.lax.scan(lambda state, _: (jnp.tanh(state @ kernel), None), x, None, length=100)[0]


def shrink(x, kernel):
    """As many steps as the data need."""
    return jax.lax.while_loop(lambda state: jnp.abs(state).max() > 1, lambda state: state @ kernel, x)


def training_step():
    """A step of AdamW, and its arguments by their shapes."""
    net, optimizer = Digits(), optax.adamw(1e-3)
    images, labels = jax.ShapeDtypeStruct((32, 28, 28, 1), "float32"), jax.ShapeDtypeStruct((32,), "int32")
    params = jax.eval_shape(net.init, jax.random.key(0), images)

    def loss(params, images, labels):
        return optax.softmax_cross_entropy_with_integer_labels(net.apply(params, images), labels).mean()

    def step(params, opt_state, images, labels):
        value, gradients = jax.value_and_grad(loss)(params, images, labels)
        updates, opt_state = optimizer.update(gradients, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, value

    return step, params, jax.eval_shape(optimizer.init, params), images, labels
