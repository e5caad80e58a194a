"""Where configurations of language models come from: files, folders, headers of GGUF files, a hub."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from flopwise._limits import within_limit
from flopwise.errors import InputError, ModelError
from flopwise.formats.language.gguf import settings_of_gguf
from flopwise.formats.sources.text import JsonObject, text_of_file

#: Keys of configurations that say how many layers there are: num_hidden_layers, n_layer, depth, encoder_layers.
_LAYERS = re.compile(
    r"layers?$|depths?$|(^|_)n_?blocks$|num_blocks$|^attention_types$|_codebooks$|_quantizers$|(^|_)block_sizes$|_rates$"
)

#: Keys that say how many classes are told apart, each of which gets a name.
_LABELS = re.compile(r"^num_labels$")

#: What names a model on a hub, and the name of one: no path.
HUB = "hf:"

#: What names a type of model of transformers.
LIBRARY = "transformers:"

#: The file of a model's folder that says what the model is.
FILE = "config.json"

#: What the names of GGUF files end in.
GGUF = ".gguf"


def is_language_model(model: object) -> bool:
    """True if a text names a configuration: a ``config.json``, a folder that holds one, ``hf:org/name``, or a GGUF file
    whose header describes a model and not tensors alone.
    """
    if not isinstance(model, (str, os.PathLike)):
        return False
    name = os.fsdecode(model)
    if name.startswith(HUB):
        return True
    if name.lower().endswith(GGUF):
        return architecture(name) is not None
    return os.path.basename(name) == FILE or os.path.isfile(os.path.join(name, FILE)) or _holds_type(name)


def architecture(name: str) -> str | None:
    """The architecture that the header of a GGUF file names; None where it describes no model, or is no such file."""
    from flopwise.formats.sources.open import open_source
    from flopwise.formats.weights.gguf import architecture_of

    if not os.path.isfile(name):
        return None
    try:
        with closing(open_source(name)) as source:
            return architecture_of(source)
    except ModelError:
        return None


def _holds_type(name: str) -> bool:
    """True if a JSON file has the key ``model_type`` of a configuration."""
    from flopwise.formats.sources.text import json_object

    return name.endswith(".json") and "model_type" in json_object(name)


def read_object(path: Path) -> JsonObject:
    """A configuration as the file spells it.

    Raises:
        ModelError: it is no JSON object, or cannot be read.
    """
    try:
        text = text_of_file(path)
        if not text.strip():
            raise ModelError(f"{path}: is empty; a JSON object with 'model_type' is expected")
        content = json.loads(text)
    except InputError as error:
        raise ModelError(str(error)) from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{path}: is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path}: is not a configuration: a JSON object with 'model_type' is expected")
    return content


def refuse_long_lists(content: Mapping[str, object], name: str) -> None:
    """Refuse a configuration beyond the limits of layers and labels; transformers makes lists of that length.

    Raises:
        ModelError: it has more.
    """
    for key, value in content.items():
        if isinstance(value, Mapping):
            refuse_long_lists(value, name)
        elif _LAYERS.search(key) and "heads" not in key:  # those of each layer are no layers
            within_limit("language_layers", _sum(value), f"{name}: {key} is", "layers")
        elif _LABELS.search(key):
            within_limit("language_modules", _sum(value), f"{name}: {key} is", "labels")


def _sum(value: object) -> float:
    """The sum of the numbers in a value and in its lists; of a list of numbers of layers the last."""
    if isinstance(value, list):
        if len(value) > 2 and all(isinstance(n, int) for n in value) and value == sorted(set(value)):
            return float(value[-1])
        return sum(map(_sum, value))
    return value if isinstance(value, (int, float)) else 0


def content_of(model: str | os.PathLike[str]) -> Mapping[str, Any]:
    """The settings of a configuration, from a file, a folder, a hub or the header of a GGUF file.

    Raises:
        ModelError: it cannot be read, or is beyond the limits.
    """
    name = os.fsdecode(model)
    if name.lower().endswith(GGUF):
        content = settings_of_gguf(name)
    elif name.startswith(HUB):
        content = content_on_hub(name, FILE)
    else:
        content = read_object(Path(name) / FILE if os.path.isdir(name) else Path(name))
    if not content.get("model_type") or not isinstance(content["model_type"], str):
        raise ModelError(f"{name}: has no 'model_type', which says what kind of model it is")
    heads = content.get("architectures")
    if heads is not None and not (isinstance(heads, list) and all(isinstance(head, str) for head in heads)):
        raise ModelError(f"{name}: architectures is {str(heads)[:50]}; a list of names is expected")
    for key in ("text_config", "llm_config", "language_config", "thinker_config", "vision_config", "audio_config"):
        if content.get(key) is not None and not isinstance(content[key], Mapping):
            raise ModelError(f"{name}: {key} is {str(content[key])[:50]}; an object of settings is expected")
    refuse_long_lists(content, name)
    return content


_REPOSITORY = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?", re.ASCII)

#: Seconds that a hub may take to answer, and the most bytes of a configuration.
_PATIENCE, _MOST = 15, 1 << 24


def content_on_hub(name: str, file: str) -> Mapping[str, Any]:
    """A JSON object of a model on the hub: from its cache, else over the network, by one request.

    ``HF_TOKEN``, ``HF_HOME``, ``HF_HUB_CACHE``, ``HF_ENDPOINT`` and ``HF_HUB_OFFLINE`` count as they do for the hub's
    own client.

    Raises:
        ModelError: it is neither in the cache nor to be had.
    """
    repository = name.removeprefix(HUB)
    if not _REPOSITORY.fullmatch(repository):
        raise ModelError(f"{name}: write hf:ORGANISATION/NAME")
    if os.path.exists(repository):
        raise ModelError(f"{name}: {repository} is a path here, too; to read that, leave {HUB} out")
    for path in _cached(repository, file):
        return read_object(path)
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")
    offline = [key for key in _OFFLINE if os.environ.get(key, "").upper() in ("1", "ON", "YES", "TRUE")]
    reason = f"{', '.join(offline)} keeps the hub's client offline"
    if not offline:
        try:
            content = json.loads(_downloaded(endpoint, repository, file))
            if isinstance(content, dict):
                return content
            reason = f"{file} there is no JSON object"
        except (OSError, ValueError, RecursionError) as error:
            reason = _why(error)
    raise ModelError(
        f"{name}: is not in the cache of the hub, and cannot be fetched ({reason}); give the folder or the config.json "
        "of a copy"
    )


_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


def _why(error: Exception) -> str:
    """Why a request failed, in a few words."""
    code = getattr(error, "code", None)
    if code == 401 and not _token():  # the hub's answer to names that it does not have, too
        return "HTTP 401: no model of that name, or one whose terms must be accepted: set HF_TOKEN"
    if code in (401, 403):
        return f"HTTP {code}: HF_TOKEN does not open it; its terms must be accepted by the owner of the token"
    if code == 404:
        return "HTTP 404: no model of that name, or none with such a file"
    if code:
        return f"HTTP {code}"
    if isinstance(error, (ValueError, RecursionError)):
        return "what the hub sent is not JSON"
    reason = getattr(error, "reason", error)
    return f"the hub cannot be reached: {getattr(reason, 'strerror', None) or reason}"


def _home() -> Path:
    """The folder of the hub's client."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("HF_HOME") or Path(cache) / "huggingface")


def _cached(repository: str, file: str) -> Iterator[Path]:
    """The newest copy of a file in the cache of the hub's client, where there is one."""
    cache = Path(os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE") or _home() / "hub")
    folder = cache / f"models--{repository.replace('/', '--')}"
    with suppress(OSError):
        revision = (folder / "refs" / "main").read_text("utf-8").strip()
        path = folder / "snapshots" / revision / file
        if re.fullmatch(r"[0-9a-f]{6,64}", revision) and path.is_file():
            yield path


def _token() -> str:
    """The token of the hub's client; "" for none."""
    token = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN") or ""
    if not token:
        with suppress(OSError):
            token = Path(os.environ.get("HF_TOKEN_PATH") or _home() / "token").read_text("utf-8").strip()
    return token


@lru_cache(8)
def _downloaded(endpoint: str, repository: str, file: str) -> bytes:
    """A file of a model on the hub."""
    from urllib.request import Request, urlopen

    if not endpoint.startswith(("https://", "http://")):
        raise OSError(f"HF_ENDPOINT is {endpoint[:60]!r}")
    request = Request(f"{endpoint}/{repository}/resolve/main/{file}", headers={"User-Agent": "flopwise"})
    if token := _token():  # not handed on where the hub sends the request elsewhere
        request.add_unredirected_header("Authorization", f"Bearer {token}")
    with urlopen(request, timeout=_PATIENCE) as answer:
        content: bytes = answer.read(_MOST)
    return content
