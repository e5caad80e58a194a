"""Modules of flax, by init and by tracing: their paths, classes, parameters and buffers."""

from pathlib import Path

import jax
import optax
import pytest
from flax import linen, nnx
from flax.training.train_state import TrainState

import flopwise
from flopwise.errors import InputError

X = jax.ShapeDtypeStruct((4, 8), "float32")


class Linen(linen.Module):
    """Dense layers, one of them computed again, with statistics and a dropout."""

    @linen.compact
    def __call__(self, x, train=False):
        x = linen.BatchNorm(use_running_average=not train)(linen.remat(linen.Dense)(16)(x))
        return linen.Dense(3)(linen.Dropout(0.1, deterministic=not train)(linen.relu(x)))


class Tree(nnx.Module):
    """The same network as a tree of arrays."""

    def __init__(self, rngs):
        self.up, self.down = nnx.Linear(8, 16, rngs=rngs), nnx.Linear(16, 3, rngs=rngs)
        self.norm, self.drop = nnx.BatchNorm(16, rngs=rngs), nnx.Dropout(0.1, rngs=rngs)

    def __call__(self, x):
        return self.down(self.drop(nnx.relu(self.norm(self.up(x)))))


def modules(profile):
    """Figures of the modules that multiply and have no others in them."""
    figures = {part.name: (part.macs, part.params) for part in profile.by("module") if part.macs}
    return {name: figure for name, figure in figures.items() if name.count(".") == 1}


@pytest.mark.upstream
def test_linen():
    profile = flopwise.profile(Linen(), (4, 8))
    assert (profile.sum.macs, profile.sum.params, profile.sum.buffers) == (
        4 * 8 * 16 + 4 * 16 * 3,
        8 * 16 + 16 + 32 + 51,
        32,
    )
    assert profile.graph.inputs[0].shape == (4, 8)
    assert len(profile.graph.inputs) == 1
    assert modules(profile) == {"Linen.CheckpointDense_0": (512, 144), "Linen.Dense_0": (192, 51)}
    assert {m.kind for row in profile.rows for m in row.node.scope} >= {"Linen", "BatchNorm", "Dense"}
    trained = flopwise.profile(Linen(), {"x": (4, 8), "train": flopwise.Value(True)})
    assert trained.sum.flops > profile.sum.flops
    assert trained.sum.macs == profile.sum.macs  # statistics that change are no second pass


@pytest.mark.parametrize("inputs", [(4, 8), ["4x8"]])
def test_modules_that_take_any_number_of_arguments(inputs):
    network = linen.Sequential([linen.Dense(16), linen.relu, linen.Dense(3)])
    assert flopwise.profile(network, inputs).sum.macs == 704


@pytest.mark.upstream
def test_nnx():
    module = nnx.eval_shape(lambda: Tree(nnx.Rngs(0)))
    module.eval()
    profile = flopwise.profile(module, (4, 8))
    assert (profile.sum.macs, profile.sum.params, profile.sum.buffers) == (704, 227, 32)
    assert modules(profile) == {"Tree.up": (512, 144), "Tree.down": (192, 51)}
    assert "__call__" in vars(Tree)
    assert Tree.__call__.__module__ == __name__


def linen_step():
    net, optimizer = Linen(), optax.adamw(1e-3)

    def state(key):
        variables = net.init(key, jax.numpy.zeros((1, 8)))
        return TrainState.create(apply_fn=net.apply, params=variables["params"], tx=optimizer), variables["batch_stats"]

    @jax.jit
    def step(state, batch_stats, x):
        def loss(params):
            return state.apply_fn({"params": params, "batch_stats": batch_stats}, x).sum()

        value, grads = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=grads), value

    return step, (*jax.eval_shape(state, jax.random.key(0)), X)


def nnx_step():
    @nnx.jit
    def step(model, optimizer, x):
        value, grads = nnx.value_and_grad(lambda model: model(x).sum())(model)
        optimizer.update(model, grads)
        return value

    tree = Tree(nnx.Rngs(0))
    tree.eval()
    return step, (tree, nnx.Optimizer(tree, optax.adamw(1e-3), wrt=nnx.Param), X)


@pytest.mark.upstream
@pytest.mark.parametrize("training", [linen_step, nnx_step])
def test_training_step(training):
    step, arguments = training()
    profile = flopwise.profile(step, arguments)
    assert profile.sum.macs == 704 + 512 + 2 * 192  # the first layer's input needs no gradient
    assert profile.sum.params == 227
    roots = [row.counts.sqrt for row in profile.rows if row.node.module == "" and row.type == "Sqrt"]
    assert sum(roots) == 227, "a root for each parameter: nothing is left out"
    assert {path.partition(".")[0] for path in modules(profile)} <= {"Linen", "Tree"}


def test_a_gradient_may_be_a_module():
    module = nnx.eval_shape(lambda: nnx.Sequential(nnx.Linear(8, 3, rngs=nnx.Rngs(0))))
    profile = flopwise.profile(jax.grad(lambda module, x: module(x).sum()), (module, X))
    assert profile.sum.macs == 2 * 4 * 8 * 3


def test_weights_that_are_shapes_alone(tmp_path: Path) -> None:
    path = tmp_path / "nets.py"
    path.write_text("import flax.linen as nn\n\n\ndef net():\n    return nn.Dense(3)\n")
    with pytest.raises(InputError, match=r"its weights \(2 arrays\) are shapes without elements"):
        flopwise.weights(f"{path}:net", inputs="1x8")
