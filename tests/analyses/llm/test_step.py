"""Steps of a language model written by hand: which of their figures are exact, and what notes say of the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import pytest
from tests.graphs import sketch

from flopwise.analyses.llm.inference import Inference, inference
from flopwise.analyses.llm.runs import Call
from flopwise.analyses.llm.step import CountedCall
from flopwise.conventions import CONVENTIONS
from flopwise.graph import Body, Graph, Node, Program, Tensor
from flopwise.profiles.count import profile_graph
from flopwise.profiles.profile import Profile


def product(*nodes: Node, bound: bool = False, program: Program = Program()) -> Graph:  # noqa: B008 - it is frozen
    """Three tokens of 8 numbers times a weight, and operators behind it."""
    made = sketch({"x": (1, 3, 8), "w": (8, 8), "y": (1, 3, 8)}, x="input", w="weight")
    made.tensors["x"] = replace(made.tensors["x"], bound=bound)
    made.node("MatMul", "x w", "y", "product")
    return replace(made.graph(), nodes=(*made.nodes, *nodes), program=program)


Y, K = Tensor("y", (1, 3, 8), "float32"), Tensor("k", (1,), "int64", "constant")
SORTED = Node("TopK", "best", (Y, K), (Tensor("v", (1, 3, 1), "float32"), Tensor("i", (1, 3, 1), "int64")))
STRANGE = Node("acme::Mystery", "odd", (Y,), (Tensor("z", (1, 3, 8), "float32"),))
OPEN = Node("Relu", "open", (Y,), (Tensor("z", None, "float32"),))
ENDLESS = Node("Relu", "again", (Y,), (Tensor("z", (1, 3, 8), "float32"),), within=(Body(0, "body", None),))

#: What a step runs, whether all of it is exact, and whether its multiply-accumulates are.
STEPS: dict[str, tuple[Graph, bool, bool]] = {
    "a product": (product(), True, True),
    "a product, and sorting": (product(SORTED), False, True),
    "a product of at most three tokens": (product(bound=True), False, False),
    "an operator without a rule": (product(STRANGE), False, False),
    "a result without a shape": (product(OPEN), False, False),
    "an operator that runs nobody knows how often": (product(ENDLESS), False, False),
    "elements that were made up": (product(program=Program(guessed=True, recorded=False)), False, False),
}


def profiled(graph: Graph) -> Profile:
    return profile_graph(graph, CONVENTIONS["flops"])


@pytest.mark.parametrize("name", STEPS)
def test_a_step_says_whether_it_is_exact_and_whether_its_macs_are(name: str) -> None:
    graph, exact, macs_exact = STEPS[name]
    step = CountedCall(profiled(graph), 1, 0, 3).step()
    assert (step.exact, step.macs_exact) == (exact, macs_exact)
    assert step.macs == 3 * 8 * 8


class Sketched:
    """A language model whose prompt and steps are graphs written by hand."""

    name, source, dtype, weight_type = "sketch", "hand", "float32", "float32"
    longest: int | None = None
    widths: Mapping[str, Fraction] = {}
    types: Mapping[str, str] = {}
    state_type: str | None = None
    notes: tuple[str, ...] = ()
    encodes, encoder_length, predicts = False, None, True
    order: Sequence[Sequence[str]] | None = None

    def __init__(self, prompt: Graph, step: Graph | None, state: Callable[[Call], int] = lambda call: 0) -> None:
        self.prompt, self.step, self.keeps_state = prompt, step, step is not None
        self.bytes_of_state = state

    def profile(self, call: Call, batch: int) -> Profile:
        graph = self.step if call.past else self.prompt
        assert graph is not None
        return profiled(graph)

    def state(self, call: Call, batch: int) -> Mapping[str, int]:
        return {"keys and values": batch * self.bytes_of_state(call)}

    def lengths(self, past: int) -> None:
        return None


def asked(prompt: str, step: str | None, **options: int) -> Inference:
    program = Sketched(STEPS[prompt][0], None if step is None else STEPS[step][0])
    return inference(program, **{"prompt": 3, "generate": 2, **options})  # type: ignore[arg-type]


EXACT, SORTING, BOUND = "a product", "a product, and sorting", "a product of at most three tokens"


@pytest.mark.parametrize(
    ("prompt", "step", "told"),
    [
        (EXACT, EXACT, None),
        (SORTING, EXACT, "MACs are exact; other operations of the prompt depend on the data and are bounds"),
        (EXACT, SORTING, "MACs are exact; other operations of a step depend on the data and are bounds"),
        (
            SORTING,
            SORTING,
            "MACs are exact; other operations of the prompt and a step depend on the data and are bounds",
        ),
        (SORTING, None, "MACs are exact; other operations of the prompt depend on the data and are bounds"),
        (BOUND, EXACT, "the counts of the prompt are bounds, not exact; flopwise profile says where"),
        (SORTING, BOUND, "the counts of the prompt and a step are bounds, not exact; flopwise profile says where"),
        (
            EXACT,
            "an operator without a rule",
            "the counts of a step are bounds, not exact; flopwise profile says where",
        ),
    ],
)
def test_a_note_says_which_counts_are_bounds(prompt: str, step: str | None, told: str | None) -> None:
    result = asked(prompt, step)
    assert [note for note in result.notes if "exact" in note] == ([] if told is None else [told])
    assert result.to_dict()["exact"] is (told is None)


@pytest.mark.parametrize(("longest", "noted"), [(5, False), (4, True), (None, False)])
def test_a_context_may_be_as_long_as_the_model_was_made_for(longest: int | None, noted: bool) -> None:
    program = Sketched(product(), product())
    program.longest = longest
    notes = [note for note in inference(program, prompt=3, generate=2).notes if "made for" in note]
    assert notes == (["5 tokens are more than the 4 that the model was made for"] if noted else [])


def test_memory_of_a_step_without_all_sizes_is_unknown() -> None:
    assert asked(EXACT, EXACT).memory_bytes == 8 * 8 * 4 + 2 * 3 * 8 * 4
    assert asked("a result without a shape", EXACT).memory_bytes is None
    assert asked(EXACT, "a result without a shape").memory_bytes is None


def test_the_state_grows_by_what_each_token_adds() -> None:
    program = Sketched(product(), product(), lambda call: 10 * call.past)
    result = inference(program, prompt=3, generate=2, batch=4)
    assert (result.cache_bytes, result.final_cache_bytes) == (4 * 30, 4 * 50)
    assert result.cache_bytes_per_token == 10
