"""The pictures of the README: pages of a model in light and dark, as PNG in ``docs/assets``.

    python docs/pictures.py [--out docs/assets]

Needs torch, transformers, selenium, Chromium and chromedriver. The model is a language model of 22 blocks in the sizes
of TinyLlama, without weights (https://huggingface.co/TinyLlama/TinyLlama-1.1B-Chat-v1.0/blob/main/config.json), and its
comparison is with half as many blocks.
"""

from __future__ import annotations

import argparse
import base64
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import flopwise
from flopwise.report.commands.compare import comparison_report
from flopwise.report.commands.profile import render
from flopwise.report.report import as_text

#: The most bytes of a picture: readers of a README wait for it.
MOST = 250_000

#: So many tokens are handed to the model.
TOKENS = 128


class Shot(NamedTuple):
    """One picture: a page, a window, and what is done in the page before."""

    name: str
    page: str
    width: int
    height: int
    script: str = ""


_AT = (
    "document.documentElement.style.scrollBehavior = 'auto'; document.querySelector('.bar').style.position = 'static';"
)

SHOTS = (
    Shot("page", "model", 1440, 930),
    Shot(
        "flame",
        "model",
        1440,
        480,
        f"{_AT} document.querySelector('[data-view=flame]').click();"
        "scrollTo(0, document.querySelector('.two').offsetTop - 16)",
    ),
    Shot("graph", "model", 1440, 820, f"{_AT} scrollTo(0, document.getElementById('graph').offsetTop - 16)"),
    Shot("compare", "comparison", 1440, 900),
)


def pages(folder: Path) -> dict[str, Path]:
    """The pages that are photographed, by name."""
    import tests.torch_vision  # noqa: F401 # transformers imports torchvision, which may be another build than torch
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    def profile(blocks: int) -> flopwise.Profile:
        sizes = {"hidden_size": 2048, "intermediate_size": 5632, "num_attention_heads": 32, "num_key_value_heads": 4}
        config = LlamaConfig(vocab_size=32000, num_hidden_layers=blocks, max_position_embeddings=2048, **sizes)
        with torch.device("meta"):
            model, tokens = LlamaForCausalLM(config), torch.zeros(1, TOKENS, dtype=torch.long)
        return flopwise.profile(model.eval(), tokens)

    whole, half = profile(22), profile(11)
    compared = flopwise.compare(whole, half, labels=["22 blocks", "11 blocks"])
    texts = {"model": render(whole, "html"), "comparison": as_text(comparison_report(compared), "html")}
    found = {name: folder / f"{name}.html" for name in texts}
    for name, path in found.items():
        path.write_text(texts[name], "utf-8")
    return found


def picture(browser: Any, page: Path, shot: Shot, scheme: str) -> bytes:
    """A picture of a page, as PNG."""
    metrics = {"width": shot.width, "height": shot.height, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
    browser.get(page.as_uri())
    browser.execute_script(shot.script)
    browser.execute_async_script(
        "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(arguments[0], 300)))"
    )
    return base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"])


def main() -> int:
    """Write the pictures; 1 when one is too large."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "assets")
    out: Path = parser.parse_args().out
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the tests' browser
    from tests.report.html.browser import open_browser

    out.mkdir(parents=True, exist_ok=True)
    large = False
    with tempfile.TemporaryDirectory() as folder:
        made = pages(Path(folder))
        browser = open_browser()
        try:
            for shot in SHOTS:
                for scheme in ("light", "dark"):
                    file = out / f"{shot.name}-{scheme}.png"
                    file.write_bytes(picture(browser, made[shot.page], shot, scheme))
                    large |= file.stat().st_size > MOST
                    print(f"{file}: {file.stat().st_size / 1000:.0f} kB")
        finally:
            browser.quit()
    return 1 if large else 0


if __name__ == "__main__":
    sys.exit(main())
