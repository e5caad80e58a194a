"""Language models: serving and training."""

from __future__ import annotations

from flopwise.report.schemas.notation import NOTES, By, Kind, Maybe, Member, Open

_WORK: dict[str, Member] = {
    "macs": ("integer", "multiply-accumulates"),
    "flops": ("integer", "FLOPs"),
    "bytes": ("integer", "bytes that must move"),
}

_STEP: dict[str, Member] = {
    "params": ("integer", "parameters"),
    "trained_params": ("integer", "of these, trained"),
    "forward_flops": ("integer", "FLOPs of the forward pass"),
    "backward_flops": ("integer", "FLOPs of the backward pass, with what is computed once more"),
    "optimizer_flops": ("integer", "FLOPs of the optimizer"),
    "weight_bytes": ("integer", "bytes of weights"),
    "gradient_bytes": ("integer", "bytes of gradients"),
    "state_bytes": ("integer", "bytes of the optimizer's states"),
    "saved_bytes": ("integer", "bytes that are kept for the backward pass"),
    "memory_bytes": ("integer", "all together"),
}

_STRETCH: dict[str, Member] = {
    "name": ("text", 'the minute, as the log writes it; "all" of the whole'),
    "ns": ("integer", "its nanoseconds, of which the first and the last minute may have fewer"),
    "prompt_tokens": ("integer", "tokens of prompts"),
    "generated_tokens": ("integer", "tokens that were generated"),
    "sequences": ("number|null", "sequences at work, on average over the generated tokens"),
    "needed_macs": ("integer", "multiply-accumulates that the work needs"),
    "bytes": ("integer", "bytes of weights and states that it must read"),
    "least_ns": ("integer", "the least time of the work on the devices"),
    "roof": ("text", "what takes that time: compute, memory, none or unknown"),
    "of_floor": ("number", "least_ns over ns: the part of the time that the devices need at least"),
}

_STAGE: dict[str, Member] = {
    "name": ("text", "name of the component"),
    "calls": ("integer", "its calls in the request"),
    "batch": ("integer", "prompts, latents or images of a call"),
    "macs": ("integer", "multiply-accumulates of a call"),
    "needed_macs": ("integer", "of these, without the pairs that masks leave out"),
    "attention_macs": ("integer", "of these, products of queries, keys and values"),
    "flops": ("integer", "FLOPs of a call"),
    "bytes": ("integer", "bytes of weights that a call reads"),
    "activation_bytes": ("integer|null", "most bytes of activations alive at once in the program"),
    "workspace_bytes": ("integer|null", "the same with attention in one piece"),
    "total_macs": ("integer", "multiply-accumulates of all calls"),
    "total_flops": ("integer", "FLOPs of all calls"),
    "total_least_ns?": ("integer", "least time of all calls on the device"),
    "roof?": ("text", "limit of that time: compute or memory"),
}

_FLOORS: Kind = Maybe(
    {
        "prefill_ns": ("integer|null", "least time of the prompt"),
        "decode_ns": ("integer|null", "least time of a step"),
        "tokens_per_s": ("integer|null", "tokens per second at most, all sequences together"),
    }
)

_SERVING: dict[str, Member] = {
    "devices": ("integer", "devices of the split"),
    "tp": ("integer", "ranks of tensor parallelism"),
    "pp": ("integer", "stages of the pipeline"),
    "ep": ("integer", "ranks of expert parallelism"),
    "cp": ("integer", "ranks of context parallelism"),
    "dp": ("integer", "replicas"),
    "max_batched_tokens": ("integer", "tokens of the largest step (--max-batched-tokens)"),
    "memory_fraction": ("number", "share of the device that the engine may use (--memory-fraction)"),
    "block_size": ("integer", "tokens of a block of the cache (--block-size)"),
    "shared_prefix": ("integer", "tokens that all sequences share (--shared-prefix)"),
    "per_device": (
        {
            "weight_bytes": ("integer", "weights of the fullest device"),
            "cache_bytes": ("integer", "its part of the cache"),
            "cache_bytes_per_token": ("integer", "of these, what a token after the prompt adds"),
            "workspace_bytes": ("integer", "what its largest step keeps alive"),
            "workspace_tokens": ("integer", "tokens of that step"),
            "must_fit_bytes": ("integer", "weights, cache and workspace"),
            "memory_bytes": ("integer|null", "memory that the engine may use"),
            "reported": ("flag|null", "whether that rests on what the driver reports; false: on the vendor's figure"),
            "left_over_bytes": ("integer|null", "what is left; negative where it does not fit"),
            "fits": ("flag|null", "whether it fits"),
        },
        "the fullest device",
    ),
    "pool?": (
        {
            "bytes": ("integer", "what weights and workspace leave of the memory that the engine may use"),
            "low_bytes": ("integer", "of these, what an engine makes room of at least"),
            "high_bytes": ("integer", "and at most"),
            "figures": ("integer", "public logs that the band rests on"),
            "source": ("text", "what the band is made of"),
        },
        "room for the cache on the fullest device",
    ),
    "max_sequences": ("integer|null", "sequences at most at this length"),
    "max_context": ("integer|null", "tokens at most at this batch"),
    "communication_bytes_per_token": ("integer", "bytes that the device sends for each token"),
    "floors": (_FLOORS, "least times, while devices compute and send at once"),
    "floors_without_overlap?": (_FLOORS, "least times, where they do not"),
    "most_tokens_per_s?": ("integer|null", "tokens per second at most with the most sequences"),
}

LLM: dict[str, Member] = {
    "model": (
        {
            "name": ("text", "class of the model"),
            "source": ("text", "its configuration"),
            "dtype": ("text", "element type of its arithmetic"),
            "kv_dtype": ("text|null", "element type of the cache, where another one was asked for"),
        },
        "the model",
    ),
    "batch": ("integer", "sequences at once"),
    "logits": ("text", "positions of the prompt that are scored: last or all"),
    "params": ("integer", "parameters"),
    "active_params": ("integer", "of these, those that a token touches"),
    "weight_bytes": ("integer", "bytes of the weights"),
    "media?": (
        {
            "tokens": ("integer", "tokens of a prompt that images and sound stand for"),
            "stages": ([_STAGE], "their encoders; figures of one image, or of the sound of one sequence"),
        },
        "images and sound before the prompt (--image, --seconds)",
    ),
    "prefill": (
        {
            "tokens": ("integer", "tokens of a prompt"),
            **_WORK,
            "needed_macs": (
                "integer",
                "multiply-accumulates that an engine needs: masks, last logits, known rewrites",
            ),
            "attention_macs": ("integer", "multiply-accumulates between tokens"),
            "activation_bytes": ("integer|null", "most bytes of activations alive at once"),
        },
        "all prompts at once",
    ),
    "decode": (
        Maybe(
            {
                "past": ("integer", "tokens in the cache"),
                **_WORK,
                "needed_macs": ("integer", "multiply-accumulates that an engine needs"),
                "attention_macs": ("integer", "multiply-accumulates between tokens"),
                "activation_bytes": ("integer|null", "most bytes of activations alive at once"),
                "weight_bytes": ("integer", "bytes of weights that the step reads at most"),
                "expected_weight_bytes": ("integer", "the same as expected where experts are chosen evenly"),
            }
        ),
        "one step, a token for each sequence; null for a model without steps",
    ),
    "generate": ({"tokens": ("integer", "tokens after each prompt"), **_WORK}, "all steps"),
    "request": ({"tokens": ("integer", "tokens of a sequence"), **_WORK}, "prompts and steps"),
    "cache": (
        {
            "tokens": ("integer", "tokens of a prompt"),
            "bytes": ("integer", "bytes of the cache after the prompts"),
            "bytes_per_token": ("integer", "bytes that a token after the prompt adds, nothing where windows are full"),
            "final_bytes": ("integer", "bytes at the end of the request"),
        },
        "keys and values, or other states",
    ),
    "kv_cache_bytes_per_token": ("integer", "bytes that a token after the prompt adds to its sequence's cache"),
    "tokens_per_s": (
        "integer|null",
        "tokens of all sequences for each second at most, over all steps; null without a device",
    ),
    "memory_bytes": ("integer", "weights, cache at the end and activations, in the reference program"),
    "rule_of_thumb": ({"forward_flops": ("integer", "2 FLOPs a parameter and token")}, "for comparison"),
    "rewrites": (
        By(
            {
                "macs": ("integer", "multiply-accumulates of a step"),
                "generate_macs": ("integer", "of all steps"),
            },
            "rewrite",
        ),
        "what known rewrites would cost (--rewrite)",
    ),
    "conventions?": (By(Open({}, "integer|text|null"), "convention"), "counts of engines' own formulas (-c)"),
    "speculation?": (
        {
            "draft": ("text", "the draft model"),
            "source": ("text", "where it is from"),
            "acceptance": ("number", "the share of guesses that are accepted"),
            "guesses": ("integer", "guesses of a round"),
            "tokens_per_round": ("number", "tokens that a round gives on average"),
            "draft_weight_bytes": ("integer", "bytes of the draft's weights"),
            "draft_cache_bytes": ("integer", "bytes of its cache at the end of the request"),
            "draft_macs": ("integer", "multiply-accumulates of a step of the draft"),
            "check_macs": ("integer", "multiply-accumulates of the model's check of a round"),
            "round_macs": ("integer", "of a round, all guesses and the check"),
            "round_ns": ("integer|null", "the least time of a round on the device"),
        },
        "a draft model whose guesses the model checks (--draft)",
    ),
    "serving?": (_SERVING, "memory and least times on devices"),
    "verdict?": ("text", "the verdict in words"),
    "splits?": ([_SERVING], "other splits of the model, where none was given"),
    "device?": (Open({}, "text|number|integer|flag|null|object|array"), "the request on one device"),
    "curve?": (
        [Open({"context": ("integer", "tokens")}, "integer|null")],
        "figures by the length of the context",
    ),
    "batches?": (
        [
            {
                "sequences": ("integer", "sequences of a step, of all devices"),
                "decode_ns": ("integer", "least time of the step"),
                "tokens_per_s": ("integer", "tokens of all sequences for each second, at most"),
            }
        ],
        "least times of a step by how many sequences it has, up to as many as fit",
    ),
    "exact": ("flag", "whether the counts are exact"),
    "notes": NOTES,
}

LLM_TRAIN: dict[str, Member] = {
    "model": (
        {
            "name": ("text", "class of the model"),
            "source": ("text", "its configuration"),
            "dtype": ("text", "element type of its arithmetic"),
        },
        "the model",
    ),
    "batch": ("integer", "sequences of a step"),
    "sequence": ("integer", "tokens of a sequence"),
    "optimizer": ("text", "the optimizer"),
    "checkpointing": ("text", "what is computed once more: none, full, selective"),
    "adapters?": ("text", "what is trained beside a frozen base"),
    **_STEP,
    "recomputed_flops": ("integer", "FLOPs of what is computed once more"),
    "model_flops": ("integer", "FLOPs of forward and backward without these"),
    "flops": ("integer", "all FLOPs"),
    "rank": (
        Maybe(
            {
                "devices": ("integer", "devices together"),
                **{name: ("integer", f"ranks of {name}") for name in ("dp", "fsdp", "tp", "pp", "ep")},
                "stage": ("integer", "the stage of the pipeline with the most memory"),
                **_STEP,
            }
        ),
        "the rank with the most memory",
    ),
    "rules_of_thumb": (By("integer", "formula"), "FLOPs of a step as formulas in use have them"),
    "run?": (Open({}, "text|number|integer"), "a run's utilisation (--tokens-per-s, --measured)"),
    "device?": (Open({}, "text|number|integer|flag|null"), "whether it fits on a device"),
    "exact": ("flag", "whether the figures are exact"),
    "notes": NOTES,
}

DIFFUSION: dict[str, Member] = {
    "model": (
        {
            "name": ("text", "class of the pipeline"),
            "source": ("text", "its folder"),
            "dtype": ("text", "element type of the weights"),
        },
        "the pipeline",
    ),
    "batch": ("integer", "images or videos at once"),
    "steps": ("integer", "steps of the scheduler"),
    "width": ("integer", "pixels"),
    "height": ("integer", "pixels"),
    "frames": ("integer|null", "frames of a video; null for images"),
    "params": ("integer", "parameters of all components"),
    "weight_bytes": ("integer", "bytes of their weights"),
    "components": (
        By(
            {
                "kind": ("text", "class of the module"),
                "params": ("integer", "parameters"),
                "weight_bytes": ("integer", "bytes of weights"),
            },
            "component",
        ),
        "every module that is loaded",
    ),
    "stages": ([_STAGE], "what runs, in the order of the first call"),
    "request": (
        {
            "macs": ("integer", "multiply-accumulates"),
            "needed_macs": ("integer", "of these, without the pairs that masks leave out"),
            "flops": ("integer", "FLOPs"),
        },
        "all calls",
    ),
    "memory": (
        {
            "weight_bytes": ("integer", "weights of all components"),
            "workspace_bytes": ("integer|null", "workspace of the largest stage"),
            "must_fit_bytes": ("integer|null", "both"),
            "one_component_bytes": ("integer|null", "the same with one component at a time on the device"),
        },
        "what must fit",
    ),
    "device?": (
        {
            "name": ("text", "the device"),
            "memory_fraction": ("number", "share of its memory that may be used (--memory-fraction)"),
            "memory_bytes": ("integer|null", "bytes of that"),
            "fits": ("flag|null", "whether it fits"),
            "least_ns": ("integer|null", "least time of the request"),
        },
        "the request on a device",
    ),
    "verdict": ("text", "the answer in a line"),
    "exact": ("flag", "whether the figures are exact"),
    "notes": NOTES,
}

LLM_LOG: dict[str, Member] = {
    "model": (
        {
            "name": ("text", "its name"),
            "source": ("text", "where it is from"),
            "dtype": ("text", "element type of the weights"),
        },
        "the model",
    ),
    "engine": ("text", "the engine whose log or metrics were read"),
    "device": ("text", "one of its devices"),
    "devices": ("integer", "how many they are"),
    "prompt": ("integer", "tokens of a prompt (--prompt)"),
    "generate": ("integer", "tokens after it (--generate)"),
    "minutes": ([_STRETCH], "each minute with work"),
    "whole": (_STRETCH, "all of them"),
    "notes": NOTES,
}
