"""The graph of a language model by its definition: the operators of each layer, layers that are alike once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flopwise.errors import InputError
from flopwise.formats.language.mixers import Mixers
from flopwise.formats.language.operators import Learning, by_columns, by_rows
from flopwise.formats.language.parts import MLP, Attention, Decoder, Layer, Mixer, MoE
from flopwise.graph import Graph, Invocation, Module, Node, Share, Tensor, Way
from flopwise.graph.graph import NOT_RECORDED, Program, ProgramTensor


def decoder_graph(
    model: Decoder,
    batch: int = 1,
    new: int = 128,
    past: int = 0,
    every: bool = True,
    encoded: int = 0,
    learning: Learning | None = None,
) -> Graph:
    """The graph of a call of a model: tokens of a prompt, or tokens after others.

    Args:
        model: its sizes.
        batch: sequences.
        new: tokens of each that are fed.
        past: tokens of each in the cache that it is handed.
        encoded: tokens that an encoder reads before the first token, or read before.
        learning: what makes it one of a training step; None: it is none.
        every: whether each layer has operators of its own; else those of layers that are alike stand for all of them.

    Raises:
        InputError: a number is out of range.
    """
    if batch < 1 or new < 1 or past < 0:
        raise InputError("batch and new tokens are at least 1, past tokens at least 0")
    return Call(model, batch, new, past, encoded, learning).graph(every)


class Call(Mixers):
    """A call of a language model, operator by operator."""

    def graph(self, every: bool) -> Graph:
        """The graph of the call."""
        model, size = self.model, (self.batch, self.new)
        tokens = ProgramTensor("input_ids", size, "int64", "input")
        given = self._encode(every)
        if self.encoded and model.encoder is None and not self.past:  # what a tower made of images
            shape = (self.batch, self.encoded, model.hidden)
            self.memory = ProgramTensor("cross_attention_states", shape, model.dtype, "input")
            given = [self.memory]
        with self._in("", model.name), self._in("model", f"{self._title}Model"):
            hidden, table = self._embedded(tokens)
            if self.learning is not None and self.learning.inputs:
                hidden = replace(hidden, grad=True)  # type: ignore[call-arg] # of a program
                self.nodes[-1] = replace(self.nodes[-1], outputs=(hidden,))
            if model.joined:
                both = [self._norm("model.enorm", hidden), self._norm("model.hnorm", hidden)]
                wide = self._run("Concat", "model.join", both, (*size, 2 * model.hidden))
                hidden = self._linear("model.eh_proj", wide, model.hidden)
            if model.vectors:
                hidden = self._vectors("model.relative_positions", hidden, model.vectors)
            if model.distances:
                name = "model.rel_embeddings"
                rows = self._weight(f"{name}.weight", model.distances, model.hidden)
                rows = self._run("Gather", name, [rows, tokens], rows.dims)  # each distance that a pair may have
                self.distances = self._norm(f"{name}.norm", rows) if model.distance_norm else rows
            if model.streams > 1:
                hidden = self._streams(hidden)
            self._embeddings = hidden
            hidden = self._stack("model.layers", "DecoderLayer", hidden, every)
            if model.streams > 1:
                hidden = self._joined(hidden)
            if model.final_norm:
                hidden = self._norm("model.norm", hidden)
            if model.pooler:
                first = self._run("Slice", "model.pooler.first", [hidden], (self.batch, model.hidden))
                self._run("Tanh", "model.pooler.act", [self._linear("model.pooler", first, model.hidden, bias=True)])
        with self._in("", model.name):
            if model.transform:
                width = model.transform_width or model.embedding or model.hidden
                hidden = self._linear("transform.dense", hidden, width, bias=model.transform_bias)
                hidden = self._norm("transform.norm", self._run("Gelu", "transform.act", [hidden]))
            elif model.embedding and model.scored:
                hidden = self._linear("project_out", hidden, model.embedding)
            shared, scores = table if model.tied else None, hidden
            if model.scored:
                way = Way("vocabulary", (Share(model.vocabulary),))
                scores = self._linear("lm_head", hidden, model.vocabulary, bias=model.head_bias, table=shared, way=way)
        self._beside()
        inputs: tuple[Tensor, ...] = (tokens, *given, *self.state)
        outputs: tuple[Tensor, ...] = (scores,)
        if self.learning is not None and self.learning.loss:
            labels = ProgramTensor("labels", size, "int64", "input")
            inputs, outputs = (*inputs, labels), (self._loss(scores, labels), scores)
        return Graph(model.name, "config", model.source, inputs, outputs, tuple(self.nodes), {}, model.notes, Program())

    def _beside(self) -> None:
        """The weights that this call leaves out, so that they are seen and counted as weights."""
        if self.model.beside:
            own = tuple(self._weight(name, *shape) for name, shape in self.model.beside)
            scope = (Module("beside", "OfImages"),)
            self.nodes.append(Node("torch::Unused", "beside", own, (), {}, scope))

    def _loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The cross-entropy of the next tokens, in single precision."""
        tokens = self.batch * self.new
        if self.model.dtype != "float32":
            scores = self._run("Cast", "float", [scores], dtype="float32")
        flat = self._run("Reshape", "view", [scores], (tokens, self.model.vocabulary), "float32")
        targets = self._run("Reshape", "view:2", [labels], (tokens,), "int64")
        return self._run("SoftmaxCrossEntropyLoss", "loss", [flat, targets], (), "float32", {"reduction": "mean"})

    def _encode(self, every: bool) -> list[Tensor]:
        """Run the encoder, where there is one and its results are not there already; what it is given."""
        encoder, decoder = self.model.encoder, self.model
        if encoder is None or self.past:
            return []
        self.model, new, self.new = encoder, self.new, self.encoded
        with self._in("encoder", f"{self._title}Encoder"):
            if encoder.sound:
                frames, width = 2 * self.encoded, encoder.hidden
                given = ProgramTensor("input_features", (self.batch, encoder.sound, frames), encoder.dtype, "input")
                x: Tensor = given
                for name, channels, tokens in (("conv1", encoder.sound, frames), ("conv2", width, self.encoded)):
                    weight = self._weight(f"encoder.{name}.weight", width, channels, 3)
                    bias = self._weight(f"encoder.{name}.bias", width)
                    x = self._run("Conv", f"encoder.{name}", [x, weight, bias], (self.batch, width, tokens))
                    x = self._run("Gelu", f"encoder.{name}.act", [x])
                hidden = self._run("Transpose", "encoder.across", [x], (self.batch, self.encoded, encoder.hidden))
                hidden = self._vectors("encoder.positions", hidden, encoder.positions * encoder.hidden)
            else:
                given = ProgramTensor("input_ids", (self.batch, self.encoded), "int64", "input")
                table = "encoder.embed_tokens.weight" if encoder.own_table else "model.embed_tokens.weight"
                hidden = self._embedded(given, "encoder", table)[0]
            if encoder.vectors:
                hidden = self._vectors("encoder.relative_positions", hidden, encoder.vectors)
            hidden = self._stack("encoder.layers", "EncoderLayer", hidden, every)
            self.memory = self._norm("encoder.norm", hidden) if encoder.final_norm else hidden
        self.model, self.new = decoder, new
        return [given]

    def _stack(self, prefix: str, kind: str, hidden: Tensor, every: bool) -> Tensor:
        """The result of all layers, one after the other; unless every one is asked for, those that are alike once."""
        layers = self.model.layers
        every = every or any(layer.shared is not None for layer in layers)
        first: dict[Layer, int] = {}
        for number, layer in enumerate(layers):
            if not every and first.setdefault(layer, number) != number:
                continue
            self._copies, self._layer = 1 if every else layers.count(layer), number
            if self.learning is not None and self.learning.checkpoints:
                self._invocation = Invocation((f"torch.utils.checkpoint.checkpoint#{number}",))
            if layer.shared is not None:
                part = ".shared_transformer" if layer.place == "along" else ""
                self._shared = f"{prefix}.{number}{part}.", f"{prefix}.shared.{layer.shared}."
            with self._in(f"{prefix}.{number}", self._title + kind):
                hidden = self._layer_of(f"{prefix}.{number}", layer, hidden)
            self._shared = ("", "")
        self._copies, self._invocation = 1, NOT_RECORDED
        return hidden

    def _embedded(
        self, tokens: Tensor, side: str = "model", shared: str = "model.embed_tokens.weight"
    ) -> tuple[Tensor, Tensor]:
        """The embeddings of the tokens, and their table."""
        model = self.model
        width = model.embedding or model.hidden
        table = self._weight(shared, model.vocabulary, width)
        by_entries = Way("vocabulary", (Share(model.vocabulary),))
        hidden = self._run("Gather", f"{side}.embed_tokens", [table, tokens], (*tokens.dims, width), way=by_entries)
        late = model.positions_late and width != model.hidden
        for name, rows in (("position", 0 if late else model.positions), ("token_type", model.types)):
            if rows:
                hidden = self._positioned(f"{side}.{name}_embeddings", tokens, hidden, rows)
        if model.embedding_norm:
            hidden = self._norm(f"{side}.embedding_norm", hidden)
        if width != model.hidden:
            hidden = self._linear("model.project_in", hidden, model.hidden, bias=model.project_bias)
        if late:
            hidden = self._positioned(f"{side}.position_embeddings", tokens, hidden, model.positions)
        entries, each = model.per_layer
        if entries:
            wide = len(model.layers) * each
            own = self._weight("model.embed_tokens_per_layer.weight", entries, wide)
            name, by_entries = "model.embed_tokens_per_layer", Way("vocabulary", (Share(entries),))
            looked = self._run("Gather", name, [own, tokens], (*tokens.dims, wide), way=by_entries)
            projected = self._linear("model.per_layer_model_projection", hidden, wide)
            shape = (*tokens.dims, len(model.layers), each)
            projected = self._norm("model.per_layer_projection_norm", self._shaped("model.per_layer", projected, shape))
            self._per_layer = self._run(
                "Add", "model.per_layer.add", [projected, self._shaped("model.per_layer", looked, shape)]
            )
        return hidden, table

    def _positioned(self, path: str, tokens: Tensor, hidden: Tensor, rows: int) -> Tensor:
        """Embeddings and those of a further table, of positions or of types of tokens."""
        own = self._weight(f"{path}.weight", rows, int(hidden.dims[-1]))
        added = self._run("Gather", path, [own, tokens], hidden.dims)
        return self._run("Add", f"{path}.add", [hidden, added])

    def _layer_of(self, path: str, layer: Layer, hidden: Tensor) -> Tensor:
        """The result of a layer: its parts, each added to what comes in."""
        place, mixers, networks = layer.place, layer.mixers, layer.networks
        if layer.vectors:
            hidden = self._vectors(path, hidden, layer.vectors)
        predicted = self.model.streaming == "predicted"
        streams = hidden
        if predicted:
            hidden, streams = self._predicted(f"{path}.altup", hidden)
        if place in ("shared", "beside"):
            normal = self._norm(f"{path}.input_layernorm", hidden)
            other = normal if place == "shared" else self._norm(f"{path}.post_attention_layernorm", hidden)
            parts = [self._mixed(f"{path}.self_attn", mixer, normal) for mixer in mixers]
            parts += [self._network(f"{path}.mlp", network, other) for network in networks]
            for part in parts:
                hidden = self._add(path, hidden, part)
            return hidden
        if place == "along":
            return self._along(path, layer, hidden)
        if mixers:
            before = hidden
            hidden = self._part(path, hidden, mixers, place, ("input_layernorm", "post_attention_layernorm"))
            if layer.laurel:
                along = self._linear(f"{path}.laurel.linear_left", before, layer.laurel)
                along = self._linear(f"{path}.laurel.linear_right", along, self.model.hidden)
                hidden = self._add(path, hidden, self._norm(f"{path}.laurel.post_laurel_norm", along))
        if layer.cross is not None:
            names = ("pre_cross_attn_layernorm", "post_cross_attn_layernorm")
            hidden = self._part(path, hidden, (layer.cross,), place, names)
        if networks:
            names = ("pre_feedforward_layernorm", "post_feedforward_layernorm")
            if place in ("pre", "bare") and mixers:
                names = ("post_attention_layernorm", "post_feedforward_layernorm")
            hidden = self._part(path, hidden, networks, "pre" if place == "first" else place, names)
        if predicted:
            streams = self._corrected(f"{path}.altup", streams, hidden)
            hidden = self._vectors(f"{path}.altup.correct_output_scale", hidden, self.model.hidden)
        if layer.per_layer:
            gated = self._linear(f"{path}.per_layer_input_gate", hidden, layer.per_layer)
            gated = self._run("Gelu", f"{path}.act", [gated])
            own = self._run("Slice", f"{path}.slice", [self._per_layer], gated.dims)
            gated = self._run("Mul", f"{path}.per_layer_input", [gated, own])
            gated = self._linear(f"{path}.per_layer_projection", gated, self.model.hidden)
            added = self._norm(f"{path}.post_per_layer_input_norm", gated)
            if predicted:
                return self._add(path, streams, self._shaped(path, added, (self.batch, self.new, 1, self.model.hidden)))
            hidden = self._add(path, hidden, added)
        return hidden

    def _along(self, path: str, layer: Layer, hidden: Tensor) -> Tensor:
        """A layer whose attention and network read hidden states and embeddings, for another mixer (Zamba 2)."""
        attention, mixer = layer.mixers
        own, wide = f"{path}.shared_transformer", (*hidden.dims[:-1], 2 * self.model.hidden)
        both = self._run("Concat", f"{own}.concat", [hidden, self._embeddings], wide)
        along = self._mixed(f"{own}.self_attn", attention, self._norm(f"{own}.input_layernorm", both))
        along = self._network(f"{own}.mlp", layer.networks[0], self._norm(f"{own}.pre_ff_layernorm", along))
        along = self._linear(f"{path}.linear", along, self.model.hidden)
        normal = self._norm(f"{path}.input_layernorm", self._add(path, hidden, along))
        return self._add(path, hidden, self._mixed(f"{path}.mamba", mixer, normal))

    def _streams(self, hidden: Tensor) -> Tensor:
        """The streams of hidden states that layers mix: [batch, tokens, streams, hidden]."""
        model, size = self.model, (self.batch, self.new)
        if model.streaming == "predicted":
            for number in range(model.streams - 1):
                self._linear(f"model.altup_projections.{number}", hidden, model.hidden)
        return self._run("Expand", "model.streams", [hidden], (*size, model.streams, model.hidden))

    def _joined(self, hidden: Tensor) -> Tensor:
        """One stream of all."""
        model, size = self.model, (self.batch, self.new)
        if model.streaming != "predicted":
            return self._collapsed("model.hc_head", hidden, model.streams)[0]
        one = self._run("Slice", "model.stream", [hidden], (*size, model.hidden))
        for number in range(model.streams - 1):
            self._linear(f"model.altup_unembed_projections.{number}", one, model.hidden)
        return self._run("ReduceMean", "model.streams.mean", [hidden], (*size, model.hidden))

    def _routed(self, path: str, hidden: Tensor) -> Tensor:
        """The weights of streams that follow from one of them."""
        routed = self._linear(f"{path}.modality_router", self._norm(f"{path}.router_norm", hidden), self.model.streams)
        return self._run("Tanh", f"{path}.tanh", [routed])

    def _predicted(self, path: str, streams: Tensor) -> tuple[Tensor, Tensor]:
        """What AltUp expects of the layer in each stream, from all of them; that of the first beside it."""
        model, size = self.model, (self.batch, self.new)
        one = self._run("Slice", f"{path}.active", [streams], (*size, model.hidden))
        weights = self._linear(f"{path}.prediction_coefs", self._routed(path, one), model.streams**2)
        weights = self._shaped(path, weights, (*size, model.streams, model.streams))
        across = self._run("Transpose", f"{path}.across", [streams], (*size, model.hidden, model.streams))
        mixed = self._run("MatMul", f"{path}.matmul", [across, weights], across.dims)
        streams = self._add(path, streams, self._run("Transpose", f"{path}.back", [mixed], streams.dims))
        return self._run("Slice", f"{path}.active", [streams], (*size, model.hidden)), streams

    def _corrected(self, path: str, streams: Tensor, hidden: Tensor) -> Tensor:
        """The streams, each with its share of what the layer made of the first beyond what was expected."""
        model, size = self.model, (self.batch, self.new)
        first = self._run("Slice", f"{path}.active", [streams], (*size, model.hidden))
        news = self._shaped(path, self._run("Sub", f"{path}.news", [hidden, first]), (*size, 1, model.hidden))
        weights = self._linear(f"{path}.correction_coefs", self._routed(path, hidden), model.streams)
        weights = self._shaped(path, weights, (*size, model.streams, 1))
        return self._add(path, streams, self._run("Mul", f"{path}.share", [news, weights], streams.dims))

    def _part(
        self, path: str, hidden: Tensor, parts: Sequence[Mixer | MLP | MoE], place: str, names: tuple[str, str]
    ) -> Tensor:
        """Half a layer: its parts side by side, with norms before or after them, added to what comes in."""
        streams, outer = self.model.streams if self.model.streaming != "predicted" else 1, hidden
        apart = self.model.streaming == "apart"
        if streams > 1:
            wide = 2 * streams if apart else streams * (streams + 2)
            hidden, mix = self._collapsed(f"{path}.{names[0]}_hc", hidden, streams, wide)
        normal = self._norm(f"{path}.{names[0]}", hidden) if place in ("pre", "both", "single") else hidden
        results = []
        for part in parts:
            if isinstance(part, Attention) and part.cross:
                results.append(self._mixed(f"{path}.encoder_attn", part, normal))
            elif isinstance(part, (MLP, MoE)):
                own = "experts_block" if isinstance(part, MoE) and len(parts) > 1 else "mlp"
                results.append(self._network(f"{path}.{own}", part, normal))
            else:
                results.append(self._mixed(f"{path}.self_attn", part, normal))
        result = results[0]
        for other in results[1:]:
            result = self._add(path, result, other)
        if place in ("post", "both"):
            result = self._norm(f"{path}.{names[1]}", result)
        if streams > 1:
            spread = self._run("Expand", f"{path}.spread", [result], outer.dims)
            if apart:
                return self._add(path, outer, spread)
            square = self._run("Slice", f"{path}.comb", [mix], (*hidden.dims[:-1], streams, streams))
            mixed = self._run("MatMul", f"{path}.streams", [square, outer], outer.dims)
            return self._add(path, mixed, spread)
        hidden = self._add(path, hidden, result)
        return self._norm(f"{path}.{names[1]}", hidden) if place == "after" else hidden

    def _collapsed(self, path: str, hidden: Tensor, streams: int, weights: int = 0) -> tuple[Tensor, Tensor]:
        """Streams of hidden states added up with weights that follow from them, and all those weights."""
        flat = self._shaped(path, hidden, (*hidden.dims[:2], streams * self.model.hidden))
        mix = self._linear(f"{path}.fn", flat, weights or streams)
        scales = 1 if not weights else 2 if self.model.streaming == "apart" else 3
        mix = self._vectors(path, mix, (weights or streams) + scales)
        shares = self._run("Slice", f"{path}.pre", [mix], (*hidden.dims[:2], streams, 1))
        return self._run(
            "ReduceSum",
            f"{path}.sum",
            [self._run("Mul", f"{path}.mul", [hidden, shares])],
            (*flat.dims[:2], self.model.hidden),
        ), mix

    def _network(self, path: str, network: MLP | MoE, x: Tensor) -> Tensor:
        with self._in(path, self._title + type(network).__name__):
            return self._dense(path, network, x) if isinstance(network, MLP) else self._mixture(path, network, x)

    def _dense(self, path: str, n: MLP, x: Tensor) -> Tensor:
        way = by_columns(n.inner, n.inner)
        up = self._linear(f"{path}.up_proj", x, n.inner, bias=n.bias, way=way)
        if n.gated:
            gate = self._linear(f"{path}.gate_proj", x, n.inner, bias=n.bias, way=way)
            if n.rank:
                both = self._adapter(f"{path}.gate_up", x, n.rank, 2 * n.inner, way)
                halves = [self._run("Slice", f"{path}.split", [both], up.dims) for _ in range(2)]
                gate, up = (self._add(path, *pair) for pair in zip((gate, up), halves, strict=True))
            gate = self._activated(path, n.activation, gate)
            up = self._run("Mul", f"{path}.mul", [gate, up])
        else:
            up = self._activated(path, n.activation, up)
        if n.vectors:
            up = self._vectors(path, up, n.vectors)
        if n.norm:
            up = self._norm(f"{path}.sub_norm", up)
        width = int(x.dims[-1])
        out = self._linear(f"{path}.down_proj", up, width, bias=n.bias, way=by_rows(n.inner, n.inner))
        if n.receptance:
            mixed = self._vectors(path, x, 2 * width)
            gate = self._run("Sigmoid", f"{path}.sigmoid", [self._linear(f"{path}.receptance", mixed, width)])
            out = self._run("Mul", f"{path}.gated", [out, gate])
        return out

    def _activated(self, path: str, op: str, x: Tensor) -> Tensor:
        x = self._run(op.removesuffix("2"), f"{path}.act_fn", [x])
        return self._run("Mul", f"{path}.act_fn.square", [x, x]) if op.endswith("2") else x

    def _mixture(self, path: str, m: MoE, x: Tensor) -> Tensor:
        tokens, hidden = self.batch * self.new, int(x.dims[-1])
        flat = self._shaped(path, x, (tokens, hidden))
        scores = self._linear(f"{path}.gate", flat, m.experts + m.idle, bias=m.router_bias)
        if m.vectors:
            scores = self._vectors(f"{path}.gate", scores, m.vectors)
        if m.correction:
            bias = ProgramTensor(f"{path}.gate.e_score_correction_bias", (m.experts,), self.model.dtype, "buffer")
            scores = self._add(f"{path}.gate", scores, bias)
        scores = self._run("Softmax", f"{path}.gate.softmax", [scores])
        weights = self._run("TopK", f"{path}.gate.topk", [scores], (tokens, m.top_k))
        inner = self._linear(f"{path}.fc1_latent_proj", flat, m.latent) if m.latent else flat
        places, width = tokens * m.top_k, m.latent or hidden
        with self._in(f"{path}.experts", f"{self._title}Experts"):
            routed = self._run("Gather", f"{path}.experts.gather", [inner, weights], (places, width))
            name, wide = "gate_up_proj" if m.gated else "up_proj", (1 + m.gated) * m.inner
            both = self._stacked(f"{path}.experts", name, routed, m, wide, Way("columns", (Share(wide),), m.experts))
            if m.gated:
                gate, up = (self._run("Slice", f"{path}.experts.split", [both], (places, m.inner)) for _ in range(2))
                gate = self._activated(f"{path}.experts", m.activation, gate)
                inner = self._run("Mul", f"{path}.experts.mul", [gate, up])
            else:
                inner = self._activated(f"{path}.experts", m.activation, both)
            down = Way("rows", (Share(m.inner),), m.experts)
            out = self._stacked(f"{path}.experts", "down_proj", inner, m, width, down)
        out = self._shaped(path, out, (tokens, m.top_k, width))
        out = self._run("Mul", f"{path}.weighed", [out, self._shaped(path, weights, (tokens, m.top_k, 1))])
        result = self._run("ReduceSum", f"{path}.sum", [out], (tokens, width))
        if m.latent:
            result = self._linear(f"{path}.fc2_latent_proj", result, hidden)
        if m.shared is not None:
            with self._in(f"{path}.shared_experts", f"{self._title}MLP"):
                shared = self._dense(f"{path}.shared_experts", m.shared, flat)
                if m.shared_gate:
                    gate = self._linear(f"{path}.shared_expert_gate", flat, 1)
                    gate = self._run("Sigmoid", f"{path}.shared_experts.sigmoid", [gate])
                    shared = self._run("Mul", f"{path}.shared_experts.gated", [shared, gate])
            result = self._add(path, result, shared)
        return self._shaped(path, result, x.dims)

    def _stacked(self, path: str, name: str, x: Tensor, m: MoE, width: int, way: Way) -> Tensor:
        """Rows multiplied with the matrices of their experts."""
        places, inner = x.dims
        stack = self._weight(f"{path}.{name}", m.experts, inner, width)
        ends = ProgramTensor(f"{path}.{name}.ends", (m.experts,), "int32", "activation")
        out = self._run("aten::_grouped_mm", f"{path}.{name}", [x, stack, ends], (places, width), way=way)
        if m.bias:
            bias = self._weight(f"{path}.{name}_bias", m.experts, width)
            own = way if way.kind == "columns" else Way("whole", experts=m.experts)
            added = self._run("Gather", f"{path}.{name}.pick", [bias, ends], (places, width), way=own)
            out = self._add(f"{path}.{name}", out, added)
        return out
