// BlockMap draws where posts are: a row for each counter, a cell for each some blocks, oldest at the left. The arrow keys
// go from cell to cell.
class BlockMap {
  constructor(el, readout) {
    Object.assign(this, { el, readout });
    this.none = $("map-none");
    this.rows = [];
    this.cursor = null; // [row, cell]
  }

  show(map) {
    this.map = map;
    this.none.hidden = map.rows.length > 0;
    set(this.none, "No counters yet: ADD COUNTER and ADD COLUMN create one.");
    while (this.rows.length > map.rows.length) this.rows.pop().el.remove();
    map.rows.forEach((row, i) => {
      if (!this.rows[i]) this.rows.push(this.row(i));
      this.fill(this.rows[i], row, i);
    });
    if (this.cursor && !(map.rows[this.cursor[0]] && map.rows[this.cursor[0]].cells[this.cursor[1]])) this.cursor = null;
    this.tell();
  }

  row(i) {
    const r = { el: make("div", "maprow"), head: make("div", "maphead"), svg: draw("svg", { preserveAspectRatio: "none", tabindex: 0, role: "slider" }), axis: make("div", "axis") };
    r.name = make("b");
    r.sum = make("span", "soft");
    r.head.append(r.name, r.sum);
    r.layers = {};
    for (const k of ["hot", "cold", "lost", "lane", "over", "use1", "use2", "use3"]) r.svg.append(r.layers[k] = draw("path", { class: "m-" + k }));
    r.svg.append(r.mark = draw("rect", { class: "m-cursor", visibility: "hidden", y: 0, height: 40 }));
    for (let k = 0; k < 3; k++) r.axis.append(make("span"));
    r.el.append(r.head, r.svg, r.axis);
    this.el.append(r.el);
    const point = (e) => {
      const box = r.svg.getBoundingClientRect(), n = this.map.rows[i].cells.length;
      this.move(i, Math.max(0, Math.min(n - 1, Math.floor((e.clientX - box.left) / box.width * n))));
    };
    r.svg.addEventListener("pointermove", point);
    r.svg.addEventListener("pointerdown", point);
    r.svg.addEventListener("focus", () => { if (!this.cursor || this.cursor[0] !== i) this.move(i, this.map.rows[i].cells.length - 1); });
    r.svg.addEventListener("blur", () => this.move(-1));
    r.svg.addEventListener("pointerleave", (e) => { if (e.pointerType === "mouse") this.move(-1); });
    r.svg.addEventListener("keydown", (e) => {
      const n = this.map.rows[i].cells.length, now = this.cursor ? this.cursor[1] : n - 1;
      const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: n - 1, PageUp: now - 10, PageDown: now + 10 }[e.key];
      if (to === undefined) return;
      e.preventDefault();
      this.move(i, Math.max(0, Math.min(n - 1, to)));
    });
    return r;
  }

  fill(r, row, i) {
    const n = row.cells.length;
    set(r.name, row.counter);
    set(r.sum, `${num(row.posts)} ${row.posts === 1 ? "post" : "posts"} in ${num(row.blocks)} ${row.blocks === 1 ? "block" : "blocks"}` + (row.each > 1 ? `, ${row.each} a cell` : ""));
    attr(r.svg, "viewBox", `0 0 ${n} 40`);
    attr(r.svg, "aria-label", "Blocks of " + row.counter);
    attr(r.svg, "aria-valuemin", 0);
    attr(r.svg, "aria-valuemax", Math.max(0, n - 1));
    const d = { hot: "", cold: "", lost: "", lane: "", over: "", use1: "", use2: "", use3: "" };
    const width = Math.max(1, r.svg.clientWidth), wide = n * 12 > width ? 1 : 1 - Math.min(0.1, 2 * n / width); // few cells stand apart
    const box = (k, x, y, h) => { d[k] += `M${x} ${y}h${wide}v${h}h-${wide}z`; };
    // From the top: a lane of what was changed since, the posts by tier, a lane of use.
    row.cells.forEach((c, x) => {
      const posts = c.hot + c.cold, top = 8, height = 24;
      if (c.lost) box("lost", x, top, height);
      else if (posts) {
        const hot = Math.round(height * c.hot / posts);
        if (hot) box("hot", x, top + height - hot, hot);
        if (hot < height) box("cold", x, top, height - hot);
      }
      if (c.over) {
        const h = Math.max(2, Math.min(7, Math.round(7 * Math.sqrt(c.over / Math.max(1, posts) * 16))));
        box("over", x, 7 - h, h);
      }
      if (c.uses > 0) box(c.uses < 10 ? "use1" : c.uses < 1000 ? "use2" : "use3", x, 34, 6);
    });
    for (const k in d) attr(r.layers[k], "d", d[k]);
    const label = (c, first) => c.time ? date(c.time) + " " + clock(c.time).slice(0, 5) : first ? "id " + c.lo : c.lo;
    const texts = n === 0 ? ["", "", ""] : n === 1 ? ["all ids", "", "newest"] : [n > 1 && row.cells[1].time ? "before " + label(row.cells[1]) : label(row.cells[0], true), label(row.cells[n >> 1]), "newest, from " + label(row.cells[n - 1])];
    texts.forEach((t, k) => set(r.axis.children[k], t));
    if (!this.cursor || this.cursor[0] !== i) this.value(r, row, n - 1);
  }

  value(r, row, x) {
    attr(r.svg, "aria-valuenow", Math.max(0, x));
    attr(r.svg, "aria-valuetext", row.cells[x] ? this.words(row, x) : "empty");
  }

  move(i, x) {
    this.cursor = i < 0 ? null : [i, x];
    this.tell();
  }

  tell() {
    this.rows.forEach((r, i) => {
      const on = this.cursor && this.cursor[0] === i;
      attr(r.mark, "visibility", on ? "visible" : "hidden");
      if (!on) return;
      attr(r.mark, "x", this.cursor[1]);
      attr(r.mark, "width", 1);
      this.value(r, this.map.rows[i], this.cursor[1]);
    });
    if (this.cursor) set(this.readout, this.words(this.map.rows[this.cursor[0]], this.cursor[1]));
    else set(this.readout, this.map.left ? `${num(this.map.left)} more counters are not shown.` : "Point at a cell, or use the arrow keys, to see its contents.");
  }

  words(row, x) {
    const c = row.cells[x], next = row.cells[x + 1], posts = c.hot + c.cold;
    const to = next ? "below " + next.lo : "the newest";
    let t = `${row.counter}: ids ${c.lo} to ${to}`;
    if (c.time) t += `, from ${date(c.time)} ${clock(c.time)}`;
    t += ` · ${num(posts)} posts in ${num(c.blocks)} ${c.blocks === 1 ? "block" : "blocks"}`;
    if (c.cold) t += ` (${c.hot ? num(c.cold) + " of them in files" : "in files"})`;
    t += ` · ${bytes(c.bytes)} memory`;
    if (c.disk) t += `, ${bytes(c.disk)} on disk`;
    if (c.over) t += ` · ${num(c.over)} changed since written`;
    t += c.uses >= 1 ? ` · ${short(c.uses)} uses/s` : c.idle < 0 ? " · not used since the start" : ` · last used ${seconds(c.idle)} ago`;
    if (c.lost) t += ` · ${num(c.lost)} cannot be read`;
    return t;
  }
}
