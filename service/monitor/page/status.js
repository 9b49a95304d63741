// Shows /status.json, again and again. Whatever it holds is shown as text:
// clients chose some of it.
'use strict';

const kEveryMs = 2000;
const kSamples = 150;
const kSvg = 'http://www.w3.org/2000/svg';

const byId = (id) => document.getElementById(id);

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

// 12345678 and " B": "12.3 MB".
function scaled(value, unit) {
  const steps = ['', 'k', 'M', 'G', 'T', 'P'];
  let step = 0;
  while (Math.abs(value) >= 999.5 && step < steps.length - 1) {
    value /= 1000;
    step += 1;
  }
  const digits = value >= 100 || Number.isInteger(value) ? 0 : 1;
  return `${value.toFixed(digits)} ${steps[step]}${unit}`.trim();
}
const bytes = (value) => scaled(value, 'B');
const percent = (value) => `${(100 * value).toFixed(0)} %`;
const count = (value) => value.toLocaleString('en');

// `columns` are [title, value of a row, "number", "word" or nothing].
function show(id, rows, columns, nothing) {
  const table = byId(id);
  table.replaceChildren();
  if (rows.length === 0) {
    table.append(element('caption', nothing));
    return;
  }
  const head = table.createTHead().insertRow();
  for (const [title, , kind] of columns) {
    head.append(element('th', title, kind));
  }
  const body = table.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    for (const [, value, kind] of columns) {
      const shown = value(row);
      const cell = element('td', shown, kind);
      if (shown === 'failed') cell.classList.add('bad');
      line.append(cell);
    }
  }
}

// One line of the last samples.
class Plot {
  constructor(title, format) {
    this.format = format;
    this.values = [];
    this.line = document.createElementNS(kSvg, 'polyline');
    this.now = element('b');
    const svg = document.createElementNS(kSvg, 'svg');
    svg.setAttribute('viewBox', `0 0 ${kSamples - 1} 100`);
    svg.setAttribute('preserveAspectRatio', 'none');
    svg.append(this.line);
    const caption = element('figcaption');
    caption.append(element('span', title), this.now);
    const figure = element('figure');
    figure.append(caption, svg);
    byId('plots').append(figure);
  }

  add(value) {
    this.values = [...this.values, value].slice(-kSamples);
    const most = Math.max(...this.values, 1e-9);
    const first = kSamples - this.values.length;
    this.line.setAttribute('points', this.values.map(
        (each, i) => `${first + i},${98 - 95 * each / most}`).join(' '));
    this.now.textContent = this.format(value);
  }
}

const plots = {
  calls: new Plot('Calls a second', (v) => v.toFixed(1)),
  flops: new Plot('FLOP/s', (v) => scaled(v, 'FLOP/s')),
  busy: new Plot('Busy share of devices', percent),
  waiting: new Plot('Waiting for devices and kernels', count),
};

const sum = (rows, value) => rows.reduce((all, row) => all + value(row), 0);
let last = null;

function plot(status) {
  const now = {
    time: status.uptime_s,
    calls: sum(status.calls, (call) => call.count),
    flops: sum(status.devices, (device) => device.operations),
    busy: sum(status.devices, (device) => device.busy_s),
  };
  const seconds = last === null ? 0 : now.time - last.time;
  if (seconds > 0) {
    const rate = (what) => Math.max(0, (now[what] - last[what]) / seconds);
    plots.calls.add(rate('calls'));
    plots.flops.add(rate('flops'));
    plots.busy.add(Math.min(1, rate('busy') / status.devices.length));
    plots.waiting.add(status.compile_waiting + sum(
        status.devices, (device) => device.products.waiting
            + device.transfers.waiting));
  }
  last = now;
}

const queue = (each) => `${each.waiting} of ${each.limit}`;

function render(status) {
  byId('version').textContent = status.version;
  byId('state').textContent =
      `${status.serving ? 'serving' : 'not serving'}, for ` +
      `${count(Math.floor(status.uptime_s))} s; ${status.in_flight} calls, ` +
      `${status.connections} connections`;
  byId('state').className = status.serving ? '' : 'bad';
  show('devices', status.devices, [
    ['device', (d) => d.name, 'word'],
    ['', (d) => d.product],
    ['', (d) => d.up ? 'works' : 'failed'],
    ['products wait', (d) => queue(d.products), 'number'],
    ['transfers wait', (d) => queue(d.transfers), 'number'],
    ['memory free', (d) => `${bytes(d.free_bytes)} of ${
        bytes(d.memory_bytes)}`, 'number'],
    ['tensors', (d) => `${bytes(d.tensor_bytes)} of ${
        bytes(d.tensor_limit_bytes)}`, 'number'],
    ['kernels', (d) => count(d.kernels), 'number'],
    ['shapes', (d) => count(d.shapes), 'number'],
  ], 'none');
  show('shapes', status.shapes, [
    ['device', (s) => s.device, 'word'],
    ['problem', (s) => s.problem, 'word'],
    ['kernel', (s) => s.kernel],
    ['products', (s) => count(s.runs), 'number'],
    ['each', (s) => `${(1e6 * s.execute_s / s.runs).toFixed(1)} µs`, 'number'],
    ['FLOP/s', (s) => s.operations > 0 && s.execute_s > 0 ?
        scaled(s.operations * s.runs / s.execute_s, 'FLOP/s') : '', 'number'],
  ], 'no product has run');
  show('calls', status.calls, [
    ['method', (c) => c.method],
    ['code', (c) => c.code, 'word'],
    ['calls', (c) => count(c.count), 'number'],
  ], 'no call has ended');
  show('rejections', status.rejections.filter((r) => r.count > 0), [
    ['limit', (r) => r.reason.replaceAll('_', ' ')],
    ['times', (r) => count(r.count), 'number'],
  ], 'none');
  show('cache', status.cache, [
    ['tier', (t) => t.name],
    ['hits', (t) => count(t.hits), 'number'],
    ['misses', (t) => count(t.misses), 'number'],
    ['errors', (t) => count(t.errors), 'number'],
    ['loaded', (t) => bytes(t.bytes_loaded), 'number'],
    ['stored', (t) => bytes(t.bytes_stored), 'number'],
  ], 'none');
  show('errors', status.errors, [
    ['time', (e) => e.time, 'word'],
    ['request', (e) => e.id, 'word'],
    ['method', (e) => e.method],
    ['code', (e) => e.code, 'word'],
    ['message', (e) => e.message],
  ], 'none');
  plot(status);
}

async function refresh() {
  try {
    const answer = await fetch('status.json', {cache: 'no-store'});
    if (!answer.ok) throw new Error(`${answer.status}`);
    render(await answer.json());
  } catch (error) {
    byId('state').textContent = `the daemon does not answer (${error.message})`;
    byId('state').className = 'bad';
  }
  setTimeout(refresh, kEveryMs);
}

refresh();
