// Numbers for people, and elements. What comes from the server is put on the page as text only: by textContent and by
// attributes that are no addresses.
const $ = (id) => document.getElementById(id);
const SVG = "http://www.w3.org/2000/svg";
const commas = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

function num(n) { return commas.format(Math.round(n)); }

// short is a number in at most five characters: 950, 12.3k, 4.56M.
function short(n) {
  if (n < 10 && n % 1 !== 0) return n.toFixed(1);
  if (n < 10000) return num(n);
  let unit = 0;
  for (; n >= 999.5 && unit < 5; unit++) n /= 1000;
  return n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0) + ["", "k", "M", "G", "T", "P"][unit];
}

function bytes(n) {
  if (n < 0) return "–" + bytes(-n);
  if (n < 1024) return Math.round(n) + " B";
  let unit = 0;
  for (; n >= 1023.5 && unit < 6; unit++) n /= 1024;
  return n.toFixed(n < 9.995 ? 2 : n < 99.95 ? 1 : 0) + " " + " KMGTPE"[unit] + "iB";
}

// span is a time in seconds.
function span(s) {
  if (s < 0) s = 0;
  if (s < 1) return Math.round(s * 1000) + " ms";
  if (s < 10) return s.toFixed(1) + " s";
  if (s < 120) return Math.round(s) + " s";
  if (s < 7200) return Math.floor(s / 60) + " min";
  if (s < 172800) return Math.floor(s / 3600) + " h " + Math.floor((s % 3600) / 60) + " min";
  return Math.floor(s / 86400) + " days";
}

// seconds is a time that is known to the second.
function seconds(s) { return s < 120 ? Math.round(s) + " s" : span(s); }

// nanos is a time in nanoseconds.
function nanos(ns) {
  if (ns < 1000) return Math.round(ns) + " ns";
  if (ns < 1e6) return (ns / 1e3).toFixed(ns < 1e4 ? 1 : 0) + " µs";
  if (ns < 1e9) return (ns / 1e6).toFixed(ns < 1e7 ? 1 : 0) + " ms";
  return span(ns / 1e9);
}

const pad = (n) => String(n).padStart(2, "0");

// clock is a time of day, in the viewer's zone; date has the day too.
function clock(ms) {
  const d = new Date(ms);
  return pad(d.getHours()) + ":" + pad(d.getMinutes()) + ":" + pad(d.getSeconds());
}

function date(ms) {
  const d = new Date(ms);
  return d.getFullYear() + "-" + pad(d.getMonth() + 1) + "-" + pad(d.getDate());
}

// when is a moment that may be long ago, seen from now.
function when(ms, now) {
  return date(ms) === date(now) ? clock(ms) : date(ms) + " " + clock(ms).slice(0, 5);
}

// set puts a text into an element, if it is another one.
function set(el, text) {
  text = String(text);
  if (el.textContent !== text) el.textContent = text;
}

function attr(el, name, value) {
  value = String(value);
  if (el.getAttribute(name) !== value) el.setAttribute(name, value);
}

function make(name, className, text) {
  const el = document.createElement(name);
  if (className) el.className = className;
  if (text !== undefined) el.textContent = text;
  return el;
}

function draw(name, attributes) {
  const el = document.createElementNS(SVG, name);
  for (const k in attributes) el.setAttribute(k, attributes[k]);
  return el;
}

// list makes an element's children fit items: make1 makes one, fill fills it in.
function list(parent, items, make1, fill) {
  while (parent.children.length > items.length) parent.lastElementChild.remove();
  items.forEach((item, i) => {
    if (!parent.children[i]) parent.append(make1());
    fill(parent.children[i], item, i);
  });
}

// spark draws values as a small curve above 0, oldest first; label says the same in words. A value that is undefined is a gap.
function spark(td, values, label) {
  let svg = td.querySelector("svg");
  if (!svg) {
    svg = draw("svg", { class: "spark", viewBox: "0 0 100 20", preserveAspectRatio: "none", role: "img" });
    svg.append(draw("path", {}));
    td.append(svg);
  }
  attr(svg, "aria-label", label);
  const top = Math.max(1e-9, ...values.filter((v) => v !== undefined));
  const step = 100 / Math.max(1, values.length - 1);
  let path = "", pen = "M";
  values.forEach((v, i) => {
    if (v === undefined) pen = "M";
    else [path, pen] = [`${path}${pen}${(i * step).toFixed(1)} ${(19 - 18 * v / top).toFixed(1)}`, "L"];
  });
  attr(svg.firstChild, "d", path);
}

// rows fills the body of a table: columns are the classes of cells, cells gives the texts of one item; a text may be
// [text, small text], or { curve, label } for spark. Without items it says none, over all columns.
function rows(body, items, columns, none, cells) {
  if (items.length === 0) {
    if (body.children.length !== 1 || !body.firstElementChild.dataset.none) {
      const tr = make("tr"), td = make("td", "none", none);
      tr.dataset.none = "1";
      td.colSpan = columns.length;
      tr.append(td);
      body.replaceChildren(tr);
    }
    set(body.firstElementChild.firstElementChild, none);
    return;
  }
  if (body.firstElementChild && body.firstElementChild.dataset.none) body.replaceChildren();
  list(body, items, () => {
    const tr = make("tr");
    for (const c of columns) {
      const td = make("td", c);
      td.append(make("bdi"), make("span", "soft"));
      td.lastChild.hidden = true;
      tr.append(td);
    }
    return tr;
  }, (tr, item, i) => {
    cells(item, i).forEach((text, k) => {
      const td = tr.children[k];
      if (text.curve) {
        spark(td, text.curve, text.label);
        return;
      }
      const [main, more] = Array.isArray(text) ? text : [text, ""];
      set(td.firstChild, main);
      set(td.lastChild, more);
      td.lastChild.hidden = !more;
    });
  });
}

// facts fills a list of names and values; a value may be [value, level].
function facts(dl, pairs) {
  pairs = pairs.filter((p) => p);
  list(dl, pairs.flatMap((p) => [[0, p], [1, p]]), () => make(dl.children.length % 2 ? "dd" : "dt"), (el, [k, p]) => {
    const [text, level] = Array.isArray(p[k]) ? p[k] : [p[k], ""];
    set(el, text);
    if (el.className !== (level || "")) el.className = level || "";
  });
}
