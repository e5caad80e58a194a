"""Networks whose tables are compared with the tools', character by character. Imports torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn


class InnerNet(nn.Module):
    """Two layers in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(10, 10)
        self.fc2 = nn.Linear(10, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc1(self.fc2(x))


class TestNet(nn.Module):
    """The network of mmengine's page."""

    __test__ = False

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(10, 10)
        self.fc2 = nn.Linear(10, 10)
        self.inner = InnerNet()

    def forward(self, x: Tensor) -> Tensor:
        return self.fc1(self.fc2(self.inner(x)))


class Odd(nn.Module):
    """Shared and uncalled modules, chains of only children, a list, an own parameter, a direct call of forward."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(10, 10)
        self.again = self.first
        self.never = nn.Linear(10, 10)
        self.chain = nn.Sequential(nn.Sequential(nn.Linear(10, 20)))
        self.same = nn.Identity()
        self.heads = nn.ModuleList([nn.Linear(20, 3), nn.Linear(3, 3)])
        self.norm = nn.BatchNorm1d(20)
        self.act = nn.ReLU()
        self.own = nn.Parameter(torch.zeros(20, 20))
        self.drop = nn.Dropout()
        self.direct = nn.Linear(20, 20)

    def forward(self, x: Tensor) -> Tensor:
        x = self.again(self.first(self.same(self.drop(x))))
        x = self.direct.forward(self.act(self.norm(self.chain(x))))
        return self.heads[0](x @ self.own)


class Dead(nn.Module):
    """A layer whose result nobody uses."""

    def __init__(self) -> None:
        super().__init__()
        self.used = nn.Linear(4, 4)
        self.lost = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        self.lost(x)
        return self.used(x)


class Gram(nn.Module):
    """A product that numpy's einsum counts, below 100."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.einsum("i,i->i", x, x)


#: Name -> a module and its input, made anew at each call.
NETS: dict[str, Callable[[], tuple[nn.Module, Tensor]]] = {
    "mmengine's page": lambda: (TestNet(), torch.zeros(1, 10)),
    "odd, training": lambda: (Odd(), torch.zeros(4, 10)),
    "odd": lambda: (Odd().eval(), torch.zeros(4, 10)),
    "a layer": lambda: (nn.Linear(2, 2), torch.zeros(1, 2)),
    "a chain": lambda: (nn.Sequential(nn.Sequential(nn.Linear(2, 2, bias=False)), nn.ReLU()), torch.zeros(1, 2)),
    "no parameters": lambda: (nn.ReLU(), torch.zeros(1, 2)),
    "unused result": lambda: (Dead(), torch.zeros(3, 4)),
    "einsum": lambda: (Gram(), torch.zeros(7)),
    "data parallel": lambda: (nn.DataParallel(TestNet()), torch.zeros(1, 10)),
    "cell": lambda: (nn.LSTMCell(10, 20), torch.zeros(3, 10)),
}
