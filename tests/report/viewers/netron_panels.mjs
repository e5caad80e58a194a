// node netron_panels.mjs FOLDER MODEL ATTACHMENT: what the panels of Netron, installed in FOLDER, show of a model
// with an attachment beside it, as JSON.
import * as fs from 'fs';
import * as path from 'path';
import { pathToFileURL } from 'url';

const [folder, model_file, attachment_file] = process.argv.slice(2);
const load = (file) => import(pathToFileURL(path.join(folder, file)));
const base = await load('base.js');
const view = await load('view.js');

class Context {

    constructor(file) {
        this.identifier = path.basename(file);
        this.stream = new base.BinaryStream(new Uint8Array(fs.readFileSync(file)));
        this.entries = new Map();
    }

    async require(id) {
        return load(`${id.replace('./', '')}.js`);
    }

    async asset(file) {
        return fs.readFileSync(path.join(folder, file), 'utf-8');
    }

    error(error) {
        throw error;
    }
}

const service = new view.ModelFactoryService({
    environment: () => null,
    require: (id) => load(`${id.replace('./', '')}.js`),
    asset: (file) => fs.readFileSync(path.join(folder, file), 'utf-8')
});
const model = await service.open(new Context(model_file));
const window = Object.create(view.View.prototype);
window._model = model;
const attached = await window.attach(new Context(attachment_file));
const { metadata, metrics } = model.attachment;
const told = (...lists) => Object.fromEntries(lists.flat().map((item) => [item.name, item.value]));

const nodes = {};
const values = {};
const visit = (node) => {
    nodes[node.name] = told(metadata.node(node), metrics.node(node));
    for (const argument of [...node.inputs, ...node.outputs]) {
        for (const value of (argument.value || []).filter((value) => value && value.name)) {
            values[value.name] = told(metadata.value(value), metrics.value(value));
        }
    }
    (node.chain || []).forEach(visit);
    for (const attribute of node.attributes || []) {
        if (attribute.type === 'graph') {
            attribute.value.nodes.forEach(visit);
        }
    }
};
model.modules.forEach((graph) => graph.nodes.forEach(visit));
// The view asks for the figures of the model and of its graph through objects that have no name.
const whole = { model: told(metrics.model({})), graph: told(metrics.graph({})) };
process.stdout.write(JSON.stringify({ attached, ...whole, nodes, values }));
