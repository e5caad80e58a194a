"""PyTorch's modules and functions with open sizes, one at a time: what makes each, and the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - PyTorch's own name for it

#: A name or a number for each axis.
Shape: TypeAlias = "tuple[int | str, ...]"

IMAGE: Shape = ("N", 4, "H", "W")
SIGNAL: Shape = ("N", 4, "T")
TOKENS: Shape = ("N", "T", 8)
STEPS: Shape = ("T", "N", 8)
VOLUME: Shape = ("N", 2, "T", "H", "W")


class One(nn.Module):
    """A function of one tensor."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any) -> Any:
        return self.function(x)


class Two(nn.Module):
    """A function of two tensors."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, y: Any) -> Any:
        return self.function(x, y)


class Packed(nn.Module):
    """A recurrent layer over sequences of which all are as long as the longest."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(8, 6, batch_first=True)

    def forward(self, x: Any) -> Any:
        lengths = [x.shape[1]] * x.shape[0]
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        out, _ = self.cell(packed)
        return nn.utils.rnn.pad_packed_sequence(out, batch_first=True)[0]


class Cell(nn.Module):
    """A cell for each step of a sequence."""

    def __init__(self, cell: nn.Module) -> None:
        super().__init__()
        self.cell = cell

    def forward(self, x: Any) -> Any:
        return self.cell(x)


class Tied(nn.Module):
    """A transformer's layer of an encoder's output and a decoder's input."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any, y: Any) -> Any:
        return self.layer(x, y)


class Self(nn.Module):
    """Attention of a sequence over itself."""

    def __init__(self, **settings: Any) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, **settings)

    def forward(self, x: Any) -> Any:
        return self.attention(x, x, x)[0]


def _modules() -> dict[str, tuple[Callable[[], nn.Module], Shape]]:
    """Modules of one input."""
    recurrent: dict[str, tuple[Callable[[], nn.Module], Shape]] = {}
    for kind in (nn.RNN, nn.LSTM, nn.GRU):
        name = kind.__name__
        recurrent[name] = (lambda kind=kind: kind(8, 6), STEPS)
        recurrent[f"{name} batch_first"] = (lambda kind=kind: kind(8, 6, batch_first=True), TOKENS)
        recurrent[f"{name} bidirectional"] = (lambda kind=kind: kind(8, 6, 2, bidirectional=True), STEPS)
        recurrent[f"{name} unbatched"] = (lambda kind=kind: kind(8, 6), ("T", 8))
        recurrent[f"{name}Cell"] = (lambda kind=kind: getattr(nn, f"{kind.__name__}Cell")(8, 6), ("N", 8))
        recurrent[f"{name} without bias"] = (lambda kind=kind: kind(8, 6, bias=False), STEPS)
    return {
        **recurrent,
        "LSTM proj_size": (lambda: nn.LSTM(8, 6, proj_size=3), STEPS),
        "LSTM proj_size both ways": (lambda: nn.LSTM(8, 6, 2, proj_size=3, bidirectional=True), STEPS),
        "LSTM packed": (Packed, TOKENS),
        "RNN relu": (lambda: nn.RNN(8, 6, nonlinearity="relu"), STEPS),
        "Conv1d": (lambda: nn.Conv1d(4, 6, 3, 2, 1), SIGNAL),
        "Conv2d": (lambda: nn.Conv2d(4, 6, (3, 5), (2, 3), (1, 2), dilation=(2, 1)), IMAGE),
        "Conv3d": (lambda: nn.Conv3d(2, 4, 3, 2, 1), VOLUME),
        "Conv2d same": (lambda: nn.Conv2d(4, 6, 4, padding="same"), IMAGE),
        "Conv2d reflect": (lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"), IMAGE),
        "Conv2d circular": (lambda: nn.Conv2d(4, 6, 3, padding=1, padding_mode="circular"), IMAGE),
        "Conv2d depthwise": (lambda: nn.Conv2d(4, 8, 3, groups=4, padding=1), IMAGE),
        "ConvTranspose1d": (lambda: nn.ConvTranspose1d(4, 6, 3, 2, 1, output_padding=1), SIGNAL),
        "ConvTranspose2d": (lambda: nn.ConvTranspose2d(4, 6, 4, 2, 1, dilation=2), IMAGE),
        "ConvTranspose3d": (lambda: nn.ConvTranspose3d(2, 4, 3, 2), VOLUME),
        "MaxPool1d": (lambda: nn.MaxPool1d(3, 2, 1), SIGNAL),
        "MaxPool2d": (lambda: nn.MaxPool2d(3, 2, ceil_mode=True), IMAGE),
        "MaxPool2d dilated": (lambda: nn.MaxPool2d(2, 2, dilation=3), IMAGE),
        "MaxPool2d padded ceil": (lambda: nn.MaxPool2d(2, 3, 1, ceil_mode=True), IMAGE),
        "MaxPool3d": (lambda: nn.MaxPool3d(2), VOLUME),
        "AvgPool1d": (lambda: nn.AvgPool1d(3, 2, 1, ceil_mode=True), SIGNAL),
        "AvgPool2d": (lambda: nn.AvgPool2d(3, 2, ceil_mode=True), IMAGE),
        "AvgPool3d": (lambda: nn.AvgPool3d(2), VOLUME),
        "LPPool1d": (lambda: nn.LPPool1d(2, 3), SIGNAL),
        "LPPool2d": (lambda: nn.LPPool2d(2, 3, 2), IMAGE),
        "FractionalMaxPool2d": (lambda: nn.FractionalMaxPool2d(2, output_size=(3, 4)), IMAGE),
        "FractionalMaxPool2d ratio": (lambda: nn.FractionalMaxPool2d(2, output_ratio=0.5), IMAGE),
        "AdaptiveAvgPool1d": (lambda: nn.AdaptiveAvgPool1d(5), SIGNAL),
        "AdaptiveAvgPool2d": (lambda: nn.AdaptiveAvgPool2d((None, 3)), IMAGE),
        "AdaptiveMaxPool2d": (lambda: nn.AdaptiveMaxPool2d(3), IMAGE),
        "AdaptiveMaxPool1d": (lambda: nn.AdaptiveMaxPool1d(4), SIGNAL),
        "AdaptiveAvgPool3d": (lambda: nn.AdaptiveAvgPool3d(2), VOLUME),
        "ReflectionPad1d": (lambda: nn.ReflectionPad1d((1, 2)), SIGNAL),
        "ReflectionPad2d": (lambda: nn.ReflectionPad2d(2), IMAGE),
        "ReplicationPad2d": (lambda: nn.ReplicationPad2d((1, 0, 2, 3)), IMAGE),
        "ReplicationPad3d": (lambda: nn.ReplicationPad3d(1), VOLUME),
        "ZeroPad2d": (lambda: nn.ZeroPad2d((1, -2, 3, 0)), IMAGE),
        "ConstantPad1d": (lambda: nn.ConstantPad1d(3, 1.0), SIGNAL),
        "CircularPad2d": (lambda: nn.CircularPad2d(1), IMAGE),
        "Linear": (lambda: nn.Linear(8, 5), TOKENS),
        "LazyLinear-like": (lambda: nn.Sequential(nn.Flatten(0, 1), nn.Linear(8, 5)), TOKENS),
        "Identity": (nn.Identity, IMAGE),
        "Flatten": (nn.Flatten, IMAGE),
        "Unflatten": (lambda: nn.Unflatten(1, (2, 2)), IMAGE),
        "Fold": (lambda: nn.Fold((4, 5), (2, 2)), ("N", 8, 12)),
        "Unfold": (lambda: nn.Unfold((2, 3), stride=2, padding=1), IMAGE),
        "PixelShuffle": (lambda: nn.PixelShuffle(2), IMAGE),
        "PixelUnshuffle": (lambda: nn.PixelUnshuffle(2), IMAGE),
        "ChannelShuffle": (lambda: nn.ChannelShuffle(2), IMAGE),
        "BatchNorm1d": (lambda: nn.BatchNorm1d(4), SIGNAL),
        "BatchNorm2d": (lambda: nn.BatchNorm2d(4), IMAGE),
        "InstanceNorm2d": (lambda: nn.InstanceNorm2d(4, affine=True), IMAGE),
        "GroupNorm": (lambda: nn.GroupNorm(2, 4), IMAGE),
        "LayerNorm": (lambda: nn.LayerNorm(8), TOKENS),
        "RMSNorm": (lambda: nn.RMSNorm(8), TOKENS),
        "LocalResponseNorm": (lambda: nn.LocalResponseNorm(2), IMAGE),
        "Softmax2d": (nn.Softmax2d, IMAGE),
        "Dropout": (nn.Dropout, IMAGE),
        "GLU": (lambda: nn.GLU(1), IMAGE),
        "PReLU": (lambda: nn.PReLU(4), IMAGE),
        "Softplus": (nn.Softplus, IMAGE),
        "Hardswish": (nn.Hardswish, IMAGE),
        "Upsample nearest": (lambda: nn.Upsample(scale_factor=2), IMAGE),
        "Upsample bilinear": (lambda: nn.Upsample(scale_factor=1.5, mode="bilinear"), IMAGE),
        "Upsample recomputed": (
            lambda: nn.Upsample(scale_factor=1.7, mode="bilinear", recompute_scale_factor=True),
            IMAGE,
        ),
        "Upsample trilinear": (lambda: nn.Upsample(size=(4, 5, 6), mode="trilinear"), VOLUME),
        "MultiheadAttention": (Self, STEPS),
        "MultiheadAttention batch_first": (lambda: Self(batch_first=True), TOKENS),
        "MultiheadAttention with bias": (lambda: Self(add_bias_kv=True, add_zero_attn=True), STEPS),
        "TransformerEncoderLayer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), TOKENS),
        "TransformerEncoder": (
            lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2, enable_nested_tensor=False),
            STEPS,
        ),
    }


def _functions() -> dict[str, tuple[Callable[[Any], Any], Shape]]:
    """Functions of one tensor."""
    return {
        "interpolate scale": (lambda x: F.interpolate(x, scale_factor=0.7), IMAGE),
        "interpolate recomputed": (lambda x: F.interpolate(x, scale_factor=0.5, recompute_scale_factor=True), IMAGE),
        "interpolate recomputed third": (
            lambda x: F.interpolate(x, scale_factor=1 / 3, mode="bilinear", recompute_scale_factor=True),
            IMAGE,
        ),
        "interpolate recomputed pair": (
            lambda x: F.interpolate(x, scale_factor=(0.4, 2.5), mode="area", recompute_scale_factor=True),
            IMAGE,
        ),
        "interpolate bicubic": (lambda x: F.interpolate(x, scale_factor=1.25, mode="bicubic"), IMAGE),
        "interpolate antialias": (
            lambda x: F.interpolate(x, scale_factor=0.5, mode="bilinear", antialias=True),
            IMAGE,
        ),
        "interpolate area": (lambda x: F.interpolate(x, scale_factor=0.5, mode="area"), IMAGE),
        "interpolate exact": (lambda x: F.interpolate(x, size=(x.shape[2] // 2, 7), mode="nearest-exact"), IMAGE),
        "interpolate linear": (lambda x: F.interpolate(x, scale_factor=3, mode="linear"), SIGNAL),
        "fft": (lambda x: torch.fft.fft(x).real, SIGNAL),
        "rfft": (lambda x: torch.fft.rfft(x).real, SIGNAL),
        "irfft": (lambda x: torch.fft.irfft(torch.fft.rfft(x)), SIGNAL),
        "irfft with a size": (lambda x: torch.fft.irfft(torch.fft.rfft(x), n=x.shape[-1]), SIGNAL),
        "fft2": (lambda x: torch.fft.fft2(x).abs(), IMAGE),
        "rfft2": (lambda x: torch.fft.irfft2(torch.fft.rfft2(x), s=x.shape[-2:]), IMAGE),
        "fftn": (lambda x: torch.fft.ifftn(torch.fft.fftn(x, dim=(1, 2))).real, SIGNAL),
        "fft padded": (lambda x: torch.fft.rfft(x, n=2 * x.shape[-1]).abs(), SIGNAL),
        "fftshift": (lambda x: torch.fft.fftshift(torch.fft.fft(x)).real, SIGNAL),
        "hfft": (lambda x: torch.fft.hfft(torch.fft.ihfft(x)), SIGNAL),
        "fftfreq": (lambda x: x * torch.fft.fftfreq(x.shape[-1], device=x.device), SIGNAL),
        "stft": (
            lambda x: torch.stft(x, 8, 4, window=torch.ones(8, device=x.device), return_complex=True).abs(),
            ("N", "T"),
        ),
        "stft not centred": (lambda x: torch.stft(x, 16, center=False, return_complex=True).abs(), ("N", "T")),
        "stft two-sided": (lambda x: torch.stft(x, 8, onesided=False, return_complex=True).abs(), ("N", "T")),
        "istft": (
            lambda x: torch.istft(
                torch.stft(x, 8, 2, window=torch.ones(8, device=x.device), return_complex=True),
                8,
                2,
                window=torch.ones(8, device=x.device),
            ),
            ("N", "T"),
        ),
        "einsum self": (lambda x: torch.einsum("ntc,nsc->nts", x, x), TOKENS),
        "einsum transpose": (lambda x: torch.einsum("ijk->kji", x), TOKENS),
        "einsum ellipsis": (lambda x: torch.einsum("...tc,...sc->...ts", x, x), TOKENS),
        "einsum sum": (lambda x: torch.einsum("ntc->nc", x), TOKENS),
        "einsum diagonal": (lambda x: torch.einsum("nii->ni", x @ x.transpose(1, 2)), TOKENS),
        "einsum three": (lambda x: torch.einsum("ntc,nsc,nsd->ntd", x, x, x), TOKENS),
        "tensordot": (lambda x: torch.tensordot(x, x, dims=([0, 2], [0, 2])), TOKENS),
        "chunk": (lambda x: torch.cat(x.chunk(3, -1)[:1], -1), SIGNAL),
        "split": (lambda x: x.split(5, -1)[0], SIGNAL),
        "tensor_split": (lambda x: x.tensor_split(3, -1)[1], SIGNAL),
        "tensor_split of a part": (lambda x: x[..., ::3].tensor_split(3, -1)[1], SIGNAL),
        "tensor_split at places": (lambda x: torch.cat(x.tensor_split((2, 5), -1)[1:], -1), SIGNAL),
        "adaptive pools of an open size": (
            lambda x: F.adaptive_avg_pool1d(x, x.shape[-1] // 2) + F.adaptive_max_pool1d(x, x.shape[-1] // 2),
            SIGNAL,
        ),
        "adaptive pool to 7": (lambda x: F.adaptive_avg_pool1d(x, 7), SIGNAL),
        "unfold": (lambda x: x.unfold(-1, 4, 3), SIGNAL),
        "as_strided": (lambda x: x.contiguous().as_strided((2, 2), (1, 1)), SIGNAL),
        "diagonal": (lambda x: x.diagonal(dim1=2, dim2=3), IMAGE),
        "diagonal off": (lambda x: torch.diagonal(x, 1, 2, 3), IMAGE),
        "diag_embed": (lambda x: torch.diag_embed(x), SIGNAL),
        "tril": (lambda x: x.tril(), IMAGE),
        "triu_indices": (lambda x: torch.triu_indices(x.shape[-1], x.shape[-1], device=x.device) * 2, SIGNAL),
        "roll": (lambda x: x.roll(3, -1), SIGNAL),
        "flip": (lambda x: x.flip(-1), SIGNAL),
        "rot90": (lambda x: torch.rot90(x, 1, (2, 3)), IMAGE),
        "cumsum": (lambda x: x.cumsum(-1), SIGNAL),
        "cummax": (lambda x: x.cummax(-1)[0], SIGNAL),
        "logcumsumexp": (lambda x: x.logcumsumexp(-1), SIGNAL),
        "diff": (lambda x: x.diff(dim=-1), SIGNAL),
        "sort": (lambda x: x.sort(-1)[0], SIGNAL),
        "topk": (lambda x: x.topk(3, -1)[0], SIGNAL),
        "topk of the size": (lambda x: x.topk(min(5, x.shape[-1]), -1)[0], SIGNAL),
        "kthvalue": (lambda x: x.kthvalue(1, -1)[0], SIGNAL),
        "median": (lambda x: x.median(-1)[0], SIGNAL),
        "quantile": (lambda x: x.quantile(0.5, -1), SIGNAL),
        "mode": (lambda x: x.mode(-1)[0], SIGNAL),
        "var_mean": (lambda x: torch.var_mean(x, -1)[0], SIGNAL),
        "std": (lambda x: x.std((1, 2)), SIGNAL),
        "norm": (lambda x: x.norm(dim=-1), SIGNAL),
        "vector_norm": (lambda x: torch.linalg.vector_norm(x, dim=(1, 2)), SIGNAL),
        "matrix_norm": (lambda x: torch.linalg.matrix_norm(x), SIGNAL),
        "normalize": (lambda x: F.normalize(x, dim=1), SIGNAL),
        "cosine": (lambda x: F.cosine_similarity(x, x.flip(1), dim=1), SIGNAL),
        "cdist": (lambda x: torch.cdist(x, x), TOKENS),
        "pdist": (lambda x: F.pdist(x), ("T", 8)),
        "outer": (lambda x: torch.outer(x, x), ("T",)),
        "kron": (lambda x: torch.kron(x, x), ("T", 3)),
        "dot": (lambda x: x @ x, ("T",)),
        "mv": (lambda x: x @ x[0], ("T", 8)),
        "bmm": (lambda x: torch.bmm(x, x.transpose(1, 2)), TOKENS),
        "baddbmm": (lambda x: torch.baddbmm(x[:, :, :1], x, x.transpose(1, 2)), TOKENS),
        "addmm": (lambda x: torch.addmm(x[:, :1], x, x.T), ("T", 8)),
        "chain_matmul": (lambda x: torch.linalg.multi_dot([x, x.T, x]), ("T", 8)),
        "matrix_power": (lambda x: torch.linalg.matrix_power(x @ x.transpose(1, 2), 3), TOKENS),
        "attention": (lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), ("N", 2, "T", 8)),
        "attention grouped": (
            lambda x: F.scaled_dot_product_attention(x, x[:, :1], x[:, :1], enable_gqa=True),
            ("N", 4, "T", 8),
        ),
        "pad reflect": (lambda x: F.pad(x, (2, 3), mode="reflect"), SIGNAL),
        "pad circular": (lambda x: F.pad(x, (1, 2), mode="circular"), SIGNAL),
        "pad replicate": (lambda x: F.pad(x, (1, 2, 0, 1), mode="replicate"), IMAGE),
        "pad to a multiple": (lambda x: F.pad(x, (0, -x.shape[-1] % 8)), SIGNAL),
        "one_hot": (lambda x: F.one_hot(x.long().argmax(1), 4), SIGNAL),
        "embedding": (lambda x: F.embedding(x.argmax(-1), torch.zeros(10, 3, device=x.device)), SIGNAL),
        "gather": (lambda x: x.gather(-1, x.argsort(-1)), SIGNAL),
        "scatter_add": (lambda x: torch.zeros_like(x).scatter_add(-1, x.argsort(-1), x), SIGNAL),
        "index_select": (lambda x: x.index_select(1, torch.tensor([0, 2], device=x.device)), SIGNAL),
        "repeat": (lambda x: x.repeat(1, 2, 3), SIGNAL),
        "repeat_interleave": (lambda x: x.repeat_interleave(2, -1), SIGNAL),
        "repeat_interleave flat": (lambda x: x.repeat_interleave(3), SIGNAL),
        "tile": (lambda x: x.tile(2, 1, 2), SIGNAL),
        "expand": (lambda x: x[:, :1].expand(-1, 5, -1) * 2, SIGNAL),
        "meshgrid": (
            lambda x: torch.stack(torch.meshgrid(x[0, 0, :, 0], x[0, 0, 0], indexing="xy")),
            IMAGE,
        ),
        "cartesian_prod": (lambda x: torch.cartesian_prod(x[0, 0], x[0, 1]), SIGNAL),
        "combinations": (lambda x: torch.combinations(x), ("T",)),
        "arange": (lambda x: x + torch.arange(x.shape[-1], device=x.device), SIGNAL),
        "arange in steps": (lambda x: torch.arange(0, x.shape[-1], 3, device=x.device) * 2, SIGNAL),
        "arange down": (lambda x: torch.arange(x.shape[-1] - 1, -1, -1, device=x.device) * 2, SIGNAL),
        "linspace": (lambda x: torch.linspace(0, 1, x.shape[-1], device=x.device) * x, SIGNAL),
        "hann_window": (lambda x: torch.hann_window(x.shape[-1], device=x.device) * x, SIGNAL),
        "vander": (lambda x: torch.vander(x, 3), ("T",)),
        "trapezoid": (lambda x: torch.trapezoid(x, dim=-1), SIGNAL),
        "slice": (lambda x: x[..., 1:-2:2] * 2, SIGNAL),
        "slice from the end": (lambda x: x[..., -5:] * 2, SIGNAL),
        "slice half": (lambda x: x[..., : x.shape[-1] // 2] * 2, SIGNAL),
        "masked": (lambda x: torch.where(x > 0, x, x.mean(-1, keepdim=True)), SIGNAL),
        "squeeze": (lambda x: x.mean(1, keepdim=True).squeeze(1), SIGNAL),
        "flatten": (lambda x: x.flatten(0, 1) * 2, IMAGE),
        "view as pairs": (lambda x: x.reshape(*x.shape[:-1], -1, 2).flip(-1), TOKENS),
        "view as complex": (lambda x: torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2)).abs(), TOKENS),
        "windows": (
            lambda x: x.reshape(x.shape[0], 4, x.shape[2] // 2, 2, x.shape[3] // 2, 2).permute(0, 2, 4, 1, 3, 5) * 2,
            IMAGE,
        ),
        "grid_sample": (
            lambda x: F.grid_sample(
                x, F.affine_grid(torch.zeros(x.shape[0], 2, 3, device=x.device), [x.shape[0], 4, 5, x.shape[3]])
            ),
            IMAGE,
        ),
        "loss": (lambda x: F.cross_entropy(x, x.argmax(1)), SIGNAL),
        "losses": (lambda x: F.mse_loss(x, x * 2, reduction="none"), SIGNAL),
        "kl_div": (lambda x: F.kl_div(x.log_softmax(-1), x.softmax(-1), reduction="batchmean"), SIGNAL),
        "histc": (lambda x: x.histc(10), SIGNAL),
        "bincount": (lambda x: torch.bincount(x.flatten().long(), minlength=5), SIGNAL),
        "searchsorted": (lambda x: torch.searchsorted(x.sort(-1)[0], x), SIGNAL),
        "unique": (lambda x: torch.unique(x), SIGNAL),
        "nonzero": (lambda x: x.nonzero(), SIGNAL),
        "masked_select": (lambda x: x[x > 0], SIGNAL),
        "inverse": (lambda x: torch.linalg.inv(x @ x.transpose(1, 2)), TOKENS),
        "cholesky": (lambda x: torch.linalg.cholesky(x @ x.transpose(1, 2)), TOKENS),
        "qr": (lambda x: torch.linalg.qr(x)[0], TOKENS),
        "svd": (lambda x: torch.linalg.svd(x, full_matrices=False)[1], TOKENS),
        "eigh": (lambda x: torch.linalg.eigh(x @ x.transpose(1, 2))[0], TOKENS),
        "solve": (lambda x: torch.linalg.solve(x @ x.transpose(1, 2), x), TOKENS),
        "lstsq": (lambda x: torch.linalg.lstsq(x, x)[0], TOKENS),
        "det": (lambda x: torch.linalg.det(x @ x.transpose(1, 2)), TOKENS),
        "fold of unfold": (
            lambda x: F.fold(F.unfold(x, 3, padding=1), x.shape[2:], 3, padding=1),
            IMAGE,
        ),
        "conv1d of a size": (lambda x: F.conv1d(x, torch.ones(4, 1, 3, device=x.device), groups=4), SIGNAL),
        "unbind": (lambda x: torch.stack(x.unbind(1)), SIGNAL),
        "loop over steps": (lambda x: torch.stack([x[..., i] * 2 for i in range(min(4, x.shape[-1]))]), SIGNAL),
        "swapaxes": (lambda x: x.swapaxes(0, 2) + 1, SIGNAL),
        "movedim": (lambda x: x.movedim(1, -1) + 1, IMAGE),
        "block_diag": (lambda x: torch.block_diag(x[0], x[1]), SIGNAL),
        "softmax": (lambda x: x.softmax(-1), SIGNAL),
        "gumbel": (lambda x: F.gumbel_softmax(x), SIGNAL),
        "rand": (lambda x: x + torch.rand(x.shape[-1], device=x.device), SIGNAL),
        "bucketize": (lambda x: torch.bucketize(x, torch.arange(5.0, device=x.device)), SIGNAL),
        "renorm": (lambda x: x.renorm(2, 0, 1.0), SIGNAL),
        "logsumexp": (lambda x: x.logsumexp((1, 2)), SIGNAL),
        "cov": (lambda x: torch.cov(x), ("T", 8)),
        "corrcoef": (lambda x: torch.corrcoef(x), ("T", 8)),
        "cross": (lambda x: torch.linalg.cross(x, x.flip(-1)), ("N", "T", 3)),
        "hstack": (lambda x: torch.hstack([x, x]) + torch.dstack([x, x]).shape[0], SIGNAL),
        "vstack": (lambda x: torch.vstack([x, x]), SIGNAL),
        "ceil division": (lambda x: x.new_zeros(x.shape[0], -(-x.shape[-1] // 3)) + 1, SIGNAL),
        "rounded": (lambda x: x.new_zeros(x.shape[0], round(x.shape[-1] / 3)) + 1, SIGNAL),
        "root of the length": (
            lambda x: x.reshape(x.shape[0], int(x.shape[1] ** 0.5), -1, 8) * 2,
            TOKENS,
        ),
    }


def _pairs() -> dict[str, tuple[Callable[[Any, Any], Any], Shape, Shape]]:
    """Functions of two tensors."""
    return {
        "matmul": (lambda x, y: x @ y, ("N", "H", 8), ("N", 8, "W")),
        "matmul broadcast": (lambda x, y: x @ y, ("N", "H", 8), (8, "W")),
        "einsum": (lambda x, y: torch.einsum("nhc,nwc->nhw", x, y), ("N", "H", 8), ("N", "W", 8)),
        "einsum with a dot": (lambda x, y: torch.einsum("bhqd,bhkd->bhqk", x, y), ("N", 2, "H", 4), ("N", 2, "W", 4)),
        "einsum contracted": (lambda x, y: torch.einsum("nhw,nhc->nwc", x, y), ("N", "H", "W"), ("N", "H", 4)),
        "bilinear": (lambda x, y: F.bilinear(x, y, torch.ones(3, 8, 4, device=x.device)), ("N", 8), ("N", 4)),
        "cat": (lambda x, y: torch.cat([x, y], 1), ("N", "H", 8), ("N", "W", 8)),
        "cdist": (lambda x, y: torch.cdist(x, y), ("N", "H", 8), ("N", "W", 8)),
        "add broadcast": (lambda x, y: x[:, :, None] + y[:, None], ("N", "H", 8), ("N", "W", 8)),
        "cross attention": (
            lambda x, y: F.scaled_dot_product_attention(x, y, y),
            ("N", 2, "H", 8),
            ("N", 2, "W", 8),
        ),
        "kron": (lambda x, y: torch.kron(x, y), ("H", 3), ("W", 2)),
        "outer": (lambda x, y: torch.outer(x, y), ("H",), ("W",)),
        "correlate": (lambda x, y: F.conv1d(x, y), ("N", 4, "H"), (6, 4, 3)),
        "solve": (lambda x, y: torch.linalg.solve(x, y), ("N", 5, 5), ("N", 5, "W")),
        "searchsorted": (lambda x, y: torch.searchsorted(x, y), ("N", "H"), ("N", "W")),
        "take along": (lambda x, y: torch.take_along_dim(x, y.argsort(-1), -1), ("N", "H"), ("N", "H")),
        "resize like": (lambda x, y: F.interpolate(x, y.shape[2:]) + y, ("N", 4, 9, 7), IMAGE),
        "crop like": (lambda x, y: x[..., : y.shape[-1]] * 2, ("N", "H"), ("N", "W")),
        "where": (lambda x, y: torch.where(x > y, x, y), SIGNAL, SIGNAL),
    }


def operators() -> dict[str, tuple[Callable[[], nn.Module], dict[str, Shape]]]:
    """Everything by name: what makes it, and the shapes of its inputs."""
    table: dict[str, tuple[Callable[[], nn.Module], dict[str, Shape]]] = {}
    for name, (build, shape) in _modules().items():
        names = {"RNN": "input", "LSTM": "input", "GRU": "input"}
        first = "input" if name.split()[0].removesuffix("Cell") in names and name != "LSTM packed" else None
        table[name] = (build, {first or _first(build()): shape})
    table |= {name: (lambda call=call: One(call), {"x": shape}) for name, (call, shape) in _functions().items()}
    table |= {
        f"{name} of two": (lambda call=call: Two(call), {"x": one, "y": two})
        for name, (call, one, two) in _pairs().items()
    }
    table["TransformerDecoderLayer"] = (
        lambda: Tied(nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)),
        {"x": ("N", "T", 8), "y": ("N", "S", 8)},
    )
    table["Transformer"] = (
        lambda: Tied(nn.Transformer(8, 2, 1, 1, 16, batch_first=True)),
        {"x": ("N", "T", 8), "y": ("N", "S", 8)},
    )
    return table


def _first(module: nn.Module) -> str:
    """The name of a module's first parameter."""
    import inspect

    return next(iter(inspect.signature(module.forward).parameters))
