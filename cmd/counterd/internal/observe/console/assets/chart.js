// Chart draws lines over time into an element of a fixed height. The newest sample is at the right. It is a slider for
// the keyboard and for screen readers: the arrow keys go from sample to sample.
class Chart {
  // series are [class, name, index in a sample, "hollow" where a 0 means nothing]. text says a sample in words, format a
  // value, axis a value at the axis. log draws a logarithmic axis from low to at least high; binary one of powers of two.
  // told is the series that the summary is about.
  constructor(el, readout, { series, text, format, axis, log, low, high, binary, label, area, told = 0 }) {
    Object.assign(this, { el, readout, series, text, format, axis, log, low, high, binary, label, area, told });
    this.samples = [];
    this.step = 10;
    this.at = -1;
    this.svg = draw("svg", { "aria-hidden": "true" });
    this.grid = draw("path", { class: "grid" });
    this.fill = draw("path", { class: "area" });
    this.cross = draw("line", { class: "cross", y1: 0, visibility: "hidden" });
    this.lines = series.map((s) => draw("path", { class: s[0] }));
    this.labels = draw("g", {});
    this.svg.append(this.grid, this.fill, ...this.lines, this.labels, this.cross);
    el.append(this.svg);
    attr(el, "tabindex", 0);
    attr(el, "role", "slider");
    attr(el, "aria-label", label);
    el.addEventListener("pointermove", (e) => this.point(e));
    el.addEventListener("pointerdown", (e) => this.point(e));
    el.addEventListener("pointerleave", () => this.move(-1));
    el.addEventListener("blur", () => this.move(-1));
    el.addEventListener("keydown", (e) => {
      const n = this.samples.length, now = this.at < 0 ? n - 1 : this.at;
      const to = { ArrowLeft: now - 1, ArrowRight: now + 1, Home: 0, End: n - 1, PageUp: now - 30, PageDown: now + 30, Escape: -1 }[e.key];
      if (to === undefined) return;
      e.preventDefault();
      this.move(to < 0 && e.key !== "Escape" ? 0 : Math.min(n - 1, to));
    });
    new ResizeObserver(() => this.paint()).observe(el);
  }

  // show takes samples, oldest first, null where nothing is known, of which span fit; end is the time of the newest in
  // ms, step the seconds between two.
  show(samples, span, end, step) {
    const shift = this.end ? Math.round((end - this.end) / 1000 / step) : 0;
    const pinned = this.at >= 0 && step === this.step && span === this.span;
    this.at = pinned ? Math.max(-1, this.at - shift + (samples.length - this.samples.length)) : -1;
    Object.assign(this, { samples, span, end, step });
    this.paint();
  }

  point(e) {
    const box = this.el.getBoundingClientRect();
    const i = this.samples.length - 1 - Math.round((box.right - e.clientX) / box.width * (this.span - 1));
    this.move(Math.max(0, Math.min(this.samples.length - 1, i)));
  }

  move(i) {
    this.at = this.samples.length ? i : -1;
    this.tell();
  }

  x(i) { return this.w - (this.samples.length - 1 - i) / (this.span - 1) * this.w; }

  y(v) {
    if (this.log) return v <= 0 ? this.h : this.h - Math.max(0, Math.log(v / this.low) / Math.log(this.top / this.low)) * this.h;
    return this.h - v / this.top * this.h;
  }

  paint() {
    this.w = this.el.clientWidth;
    this.h = this.el.clientHeight - 18;
    if (!this.w || !this.span) return;
    attr(this.svg, "viewBox", `0 0 ${this.w} ${this.h + 18}`);
    let most = 0;
    for (const s of this.samples) if (s) for (const l of this.series) most = Math.max(most, s[l[2]]);
    const ticks = this.scale(most);
    let grid = "", texts = [];
    for (const t of ticks) {
      const y = Math.round(this.y(t)) + (t === this.top ? 1 : 0);
      grid += `M0 ${y}H${this.w}`;
      texts.push([2, y + 11, this.axis(t), "start"]);
    }
    const seconds = this.span * this.step, every = seconds > 600 ? 900 : 60;
    for (let ago = 0; ago <= seconds; ago += every) {
      const x = this.w - ago / this.step / (this.span - 1) * this.w;
      texts.push([Math.min(this.w, Math.max(0, x)), this.h + 14, ago === 0 ? "now" : "–" + ago / 60 + " min", ago === 0 ? "end" : x < 30 ? "start" : "middle"]);
    }
    attr(this.grid, "d", grid);
    list(this.labels, texts.map((t) => t), () => draw("text", {}), (el, t) => {
      attr(el, "x", t[0]);
      attr(el, "y", t[1]);
      attr(el, "text-anchor", t[3]);
      set(el, t[2]);
    });
    this.series.forEach((l, k) => attr(this.lines[k], "d", this.path(l)));
    if (this.area) attr(this.fill, "d", this.path(this.series[0], true));
    attr(this.cross, "y2", this.h);
    this.tell();
  }

  // scale chooses the ends of the axis, and says where lines are drawn.
  scale(most) {
    if (this.log) {
      this.top = this.high;
      while (this.top < most) this.top *= 10;
      const ticks = [];
      for (let t = this.top; t > this.low; t /= 10) ticks.unshift(t);
      return ticks;
    }
    if (this.binary) {
      this.top = 1024;
      while (this.top < most * 1.02) this.top *= 2;
      return [this.top / 2, this.top];
    }
    let unit = 1;
    while (unit * 10 < most) unit *= 10;
    this.top = Math.max(10, [1, 2, 4, 5, 8, 10].map((n) => n * unit).find((n) => n >= most * 1.02) || 20 * unit);
    return [this.top / 2, this.top];
  }

  // path draws a series. A 0 of a hollow one is not drawn: a latency without commands, no errors.
  path([, , k, hollow], closed) {
    let d = "", from = -1, last = -1;
    const close = (i) => { if (closed && from >= 0) d += `L${this.x(i).toFixed(1)} ${this.h}L${this.x(from).toFixed(1)} ${this.h}Z`; };
    this.samples.forEach((s, i) => {
      const gap = !s || hollow && !s[k];
      if (gap) {
        if (from >= 0) close(last);
        from = -1;
        return;
      }
      const at = this.x(i).toFixed(1), y = this.y(s[k]).toFixed(1);
      if (from < 0) {
        from = i;
        d += `M${at} ${y}`;
        if (!closed && (i + 1 >= this.samples.length || !this.samples[i + 1] || hollow && !this.samples[i + 1][k])) d += "h1.5";
      } else d += (this.log ? `H${at}V${y}` : `L${at} ${y}`);
      last = i;
    });
    if (from >= 0) close(last);
    return d;
  }

  // tell says the sample under the cross, or what there was in all.
  tell() {
    const n = this.samples.length, at = this.at, s = this.samples[at < 0 ? n - 1 : at];
    attr(this.cross, "visibility", at < 0 ? "hidden" : "visible");
    if (at >= 0) {
      attr(this.cross, "x1", this.x(at));
      attr(this.cross, "x2", this.x(at));
    }
    attr(this.el, "aria-valuemin", 0);
    attr(this.el, "aria-valuemax", Math.max(0, n - 1));
    attr(this.el, "aria-valuenow", Math.max(0, at < 0 ? n - 1 : at));
    let words;
    if (at >= 0) words = clock(this.end - (n - 1 - at) * this.step * 1000) + ": " + (s ? this.text(s) : "nothing is known");
    else words = this.summary();
    set(this.readout, words || "\u00a0");
    // Who listens to it is told what he asked for, and not each second anew.
    if (at >= 0 || document.activeElement !== this.el) attr(this.el, "aria-valuetext", words || "no data yet");
  }

  summary() {
    const [, name, k, hollow] = this.series[this.told];
    const known = this.samples.filter((s) => s && !(hollow && !s[k])).map((s) => s[k]);
    if (!known.length) return "";
    return `${this.told ? name + " " : ""}at most ${this.format(Math.max(...known))}, at least ${this.format(Math.min(...known))} in the last ${this.span * this.step > 600 ? "hour" : "5 minutes"}`;
  }
}
