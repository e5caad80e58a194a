"use strict";
// What all parts of the page of a comparison share: models, measure, and differences to the first model.
Object.assign(flopwise, (() => {
  const { data, state, emit, make, unknown, exact, parts } = flopwise;
  Object.assign(state, { measure: data.shown[0], other: 1 });
  const models = data.models.map((model, at) => ({ ...model, at, letter: String.fromCharCode(65 + (at % 26)) + (at < 26 ? "" : Math.floor(at / 26)) }));
  // The first model is grey, and so are those for which no colour is left.
  models.forEach((model) => { model.colour = flopwise.series(model.at - 1); });
  const others = models.slice(1);

  const conventions = [...new Set(models.map((model) => model.convention.name))];
  const counted = (model) => flopwise.counted(model.convention);
  function title(figure, model = null) {
    if (figure !== "count") return data.figures[figure].title;
    if (model) return counted(model);
    return conventions.length > 1 ? "count" : counted(models[0]);
  }
  const unit = (figure, model) => (figure === "count" ? model.convention.unit : data.figures[figure].bytes ? "B" : "");

  const digits = /^-?\d+$/;
  const plain = (value) => typeof value === "number" || (typeof value === "string" && digits.test(value));
  const zero = (value) => (value === "" ? 0 : value);
  // How much more the second has than the first; what is not there is 0. "inSymbols" has it for figures in symbols. null:
  // unknown.
  function difference(first, other, inSymbols) {
    if (first === "" && other === "") return "";
    const [a, b] = [zero(first), zero(other)];
    if (unknown(a) || unknown(b)) return null;
    if (plain(a) && plain(b)) return BigInt(b) - BigInt(a);
    return first === "" ? b : other === "" ? `-(${a})` : inSymbols ?? null;
  }
  // In per cent of what the first has; null: it is unknown, or the first has nothing.
  function percent(first, more) {
    const a = zero(first);
    if (typeof more !== "bigint" || !plain(a)) return null;
    if (more === 0n) return 0;
    return Number(a) ? (100 * Number(more)) / Number(a) : null;
  }
  const sign = (text) => text.replace("-", "−");
  const signed = (more) => (more === "" ? "" : unknown(more) ? "?" : typeof more === "string" ? more : (more > 0n ? "+" : "") + sign(exact(more.toString())));
  const shortly = (more, of = "") => (typeof more === "bigint" ? (more > 0n ? "+" : more < 0n ? "−" : "") + parts((more < 0n ? -more : more).toString(), of).join(" ").trim() : signed(more));
  function share(value) {
    if (value === null) return "";
    const size = Math.abs(value);
    const text = size === 0 ? "0" : size < 0.0001 ? "<0.0001" : size < 0.05 ? Number(size.toPrecision(1)).toFixed(Math.ceil(-Math.log10(size))) : size >= 1000 ? Math.round(size).toLocaleString("en-US") : size.toFixed(1);
    return `${value > 0 ? "+" : value < 0 ? "−" : ""}${text} %`;
  }
  const way = (more) => (typeof more !== "bigint" ? (unknown(more) ? "unknown" : "") : more > 0n ? "more" : more < 0n ? "less" : "same");

  // Whether a figure is in another unit than that of the first model, so that there is no difference.
  const apart = (figure, at) => figure === "count" && data.apart[at];

  // A difference of totals: a lower bound proves nothing.
  function gain(entry, at, figure) {
    if (apart(figure, at)) return "";
    const sure = (value, of) => (value === "" || entry.exact[of] ? value : null);
    return difference(sure(entry.values[0], 0), sure(entry.values[at], at), entry.differences?.[at]);
  }
  const bound = (entry, at) => (entry.exact[at] || unknown(entry.values[at]) || entry.values[at] === "" ? "" : "≥ ");

  const values = (at, figure = state.measure) => data.layers.values[figure][at] || [];
  const gains = new Map();
  // How much more a model has of a figure than the first, for each layer.
  function gainsOf(at, figure = state.measure) {
    const key = `${figure} ${at}`;
    if (!gains.has(key)) {
      const [first, other, inSymbols] = [values(0, figure), values(at, figure), data.layers.symbols[figure] || {}];
      gains.set(key, first.map((value, layer) => (apart(figure, at) ? "" : difference(value, other[layer], inSymbols[layer]?.[at]))));
    }
    return gains.get(key);
  }
  const opOf = (layer) => data.ops[data.layers.op[layer]];
  const nameOf = (layer, at) => { const name = data.layers.name[at][layer]; return name === 0 ? data.layers.name[0][layer] : name; };
  const anyName = (layer) => nameOf(layer, models.findIndex((model) => !unknown(nameOf(layer, model.at))));
  const badge = (model) => { const made = make("b", { class: "badge" }, model.letter); made.style.background = model.colour; made.style.color = flopwise.onSeries(model.at - 1); return made; };
  function setMeasure(measure) { state.measure = measure; emit("measure"); }
  function setOther(other) { state.other = other; emit("measure"); }

  return { models, others, conventions, title, unit, difference, rise: percent, signed, shortly, shareText: share, way, apart, gain, bound, values, gainsOf, opOf, nameOf, anyName, badge, setMeasure, setOther };
})());
