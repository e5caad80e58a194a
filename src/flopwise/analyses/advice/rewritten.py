"""An ONNX model with advice carried out, kept only where its outputs are those of the model before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flopwise.analyses.advice.advice import Suggestion
from flopwise.analyses.advice.edited import Edited, loaded
from flopwise.analyses.advice.subject import Subject
from flopwise.analyses.timing.engines import UnsupportedError
from flopwise.analyses.timing.engines.onnxruntime import random_inputs
from flopwise.errors import ModelError, counted

if TYPE_CHECKING:
    import onnx

#: The difference that rounding may make, over the largest element of an output.
ROUNDING, HALF_ROUNDING = 1e-4, 4e-3


class Rewriter:
    """A model in ONNX that takes advice, and the outputs that it had before."""

    def __init__(self, model: onnx.ModelProto, subject: Subject, rows: int | None = None) -> None:
        """
        Args:
            model: what is rewritten.
            subject: the same model.
            rows: integers of inputs are less than this, because they pick rows; None where nothing is known.
        """
        self.edited = Edited(model, subject)
        session = self.edited.session(model)
        shapes = {t.name: t.shape for t in subject.graph.inputs if t.shape is not None}
        feeds = random_inputs(session.get_inputs(), shapes)
        self._feeds = {
            name: feed % rows if rows is not None and feed.dtype.kind in "iu" else feed for name, feed in feeds.items()
        }
        self._expected = session.run(None, self._feeds)

    def apply(self, found: Sequence[Suggestion]) -> tuple[list[Suggestion], list[str]]:
        """The suggestions that were carried out, and a note for each rule that could not be."""
        done: list[Suggestion] = []
        notes = []
        used: set[int] = set()
        for name in dict.fromkeys(each.rule.name for each in found):
            before = type(self.edited.model)()
            before.CopyFrom(self.edited.model)
            mine: list[Suggestion] = []
            free = [each for each in found if each.rule.name == name and each.change and not each.change.stays]
            for each in free:
                assert each.change is not None
                if not used.intersection(each.change.positions) and self.edited.take(each.change):
                    mine.append(each)
            fault = self._fault(half=name == "cast-pairs") if mine else ""
            if fault:
                self.edited.model, mine = before, []
            notes += self._left(name, [each for each in free if each not in mine], fault)
            used.update(p for each in mine if each.change for p in each.change.positions)
            done += mine
        if done:
            self.edited.prune()
        return done, notes

    def _left(self, rule: str, places: Sequence[Suggestion], fault: str) -> list[str]:
        """A note on the places of a rule that stay as they are; [] where none does."""
        if not places:
            return []
        refusals = (self.edited.refusal(each.change) for each in places if each.change)
        why = fault or next(filter(None, refusals), "overlapping with another change")
        return [f"{rule}: {counted(len(places), 'place')} left as they are: {why}"]

    def _fault(self, half: bool) -> str:
        """Difference of the outputs from those of the model before; "" where there is none."""
        import numpy as np

        try:
            results = self.edited.session(self.edited.model).run(None, self._feeds)
        except Exception as error:  # onnxruntime's exceptions have no common class
            return f"onnxruntime refuses it: {str(error).splitlines()[0]}"
        for one, other in zip(self._expected, results, strict=True):
            if np.shape(one) != np.shape(other):
                return "an output has another shape"
            if not np.size(one):
                continue
            before, after = np.asarray(one, np.float64), np.asarray(other, np.float64)
            rounding = HALF_ROUNDING if half or np.asarray(one).dtype == np.float16 else ROUNDING
            largest = float(np.max(np.abs(before), initial=1e-3, where=np.isfinite(before)))
            if not np.allclose(before, after, rtol=0, atol=rounding * largest, equal_nan=True):
                return "an output differs by more than rounding"
        return ""


def rewritten(path: str, subject: Subject, found: Sequence[Suggestion]) -> tuple[bytes, list[Suggestion], list[str]]:
    """The bytes of the model with the same results, what was carried out, and notes on what was not.

    Args:
        path: of the ONNX file.
        subject: the file.
        found: what rules found in it.

    Raises:
        ModelError: onnxruntime does not run the model, its weights are missing, or it is larger than a message may be.
    """
    new = [node for each in found if each.change for node in each.change.after if node.op == "Gather"]
    rows = min((int(node.input(0).dims[0]) for node in new), default=None)
    model = loaded(path)
    try:
        rewriter = Rewriter(model, subject, rows)
        done, notes = rewriter.apply(found)
        return rewriter.edited.model.SerializeToString(), done, notes
    except UnsupportedError as error:
        raise ModelError(f"{path}: onnxruntime fails to run it: {error}") from error
    except ModelError as error:
        raise ModelError(f"{path}: onnxruntime refuses it: {error}") from error
    except ValueError as error:  # protobuf's, of 2 GB and more
        raise ModelError(f"{path}: too large to be written as one file: {error}") from error
