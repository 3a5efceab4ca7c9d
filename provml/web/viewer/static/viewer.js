// The one script of the pages. Every page can be read, and every form sent, without it.
"use strict";
document.documentElement.classList.add("js");
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const token = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const short = (value) => value === null || value === undefined ? "–" : String(+Number(value).toPrecision(4));

// ---- runs: how many are ticked. Ticks survive a live update.
function watchSelection() {
  const button = document.querySelector("[data-compare]");
  if (!button) return;
  const hint = document.querySelector("[data-compare-hint]");
  const update = () => {
    const count = all('input[name="r"]:checked').length;
    button.disabled = count < 2;
    button.classList.toggle("primary", count > 1);
    hint.textContent = count > 1 ? `${count} runs ticked.` : "Tick two or more runs.";
  };
  document.addEventListener("change", (event) => { if (event.target.name === "r") update(); });
  document.addEventListener("provml:update", update);
  update();
}

// ---- charts
const charts = new Map();
const seriesColor = (index) => token(`--series-${index % 6}`);
const dash = (series) => series.dashed ? [6, 4] : series.group > 5 ? [2, 3] : [];

function marksPlugin(marks) {
  return { hooks: { draw: (plot) => {
    const context = plot.ctx;
    context.save();
    context.strokeStyle = token("--muted");
    context.fillStyle = token("--muted");
    context.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    context.textAlign = "left";
    context.textBaseline = "alphabetic";
    context.setLineDash([3 * devicePixelRatio, 4 * devicePixelRatio]);
    let row = 0, end = -Infinity;
    marks.forEach((mark) => {
      const x = Math.round(plot.valToPos(mark.x, "x", true));
      if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) return;
      context.beginPath();
      context.moveTo(x, plot.bbox.top);
      context.lineTo(x, plot.bbox.top + plot.bbox.height);
      context.stroke();
      if (marks.length > 8) return;
      const width = context.measureText(mark.label).width;
      const gap = 5 * devicePixelRatio;
      const left = x + gap + width > plot.bbox.left + plot.bbox.width ? x - gap - width : x + gap;
      row = left < end ? row + 1 : 0;
      end = left + width + 6 * devicePixelRatio;
      context.fillText(mark.label, left, plot.bbox.top + (11 + 13 * row) * devicePixelRatio);
    });
    context.restore();
  } } };
}

function drawChart(element) {
  const data = JSON.parse(element.querySelector("script").textContent);
  const old = charts.get(element);
  if (old) { old.plot.destroy(); old.legend.remove(); }
  const axis = { stroke: () => token("--muted"), grid: { stroke: () => token("--rule"), width: 1 }, ticks: { stroke: () => token("--rule"), width: 1 }, font: "11px system-ui, sans-serif" };
  const legend = document.createElement("ul");
  legend.className = "legend";
  const values = data.series.map((series) => {
    const item = legend.appendChild(document.createElement("li"));
    const line = item.appendChild(document.createElement("i"));
    line.className = `s${series.group % 6}${series.dashed ? " dashed" : ""}`;
    item.append(`${series.name} `);
    return item.appendChild(document.createElement("b"));
  });
  const show = (plot) => data.series.forEach((series, index) => {
    let at = plot.cursor.idx;
    if (at === null || at === undefined) { at = series.ys.length - 1; while (at > 0 && series.ys[at] === null) at -= 1; }
    values[index].textContent = short(series.ys[at]);
  });
  const stepped = uPlot.paths.stepped({ align: -1 });
  const plot = new uPlot({
    width: element.clientWidth, height: 210,
    cursor: { sync: data.key ? { key: data.key } : undefined, points: { size: 6 }, drag: { x: true, y: false } },
    legend: { show: false },
    scales: { x: { time: false } },
    axes: [
      { ...axis, label: data.x, labelSize: 16, labelFont: "11px system-ui, sans-serif", size: 34, space: 50, values: (_, ticks) => ticks.map((tick) => Number.isInteger(tick) ? tick : "") },
      { ...axis, size: 62, values: (_, ticks) => ticks.map((tick) => String(+tick.toPrecision(6))) },
    ],
    series: [{}, ...data.series.map((series) => ({
      label: series.name, stroke: () => seriesColor(series.group), width: 1.8, dash: dash(series), spanGaps: true,
      paths: series.step ? stepped : undefined, points: { show: series.ys.filter((y) => y !== null).length < 3 },
    }))],
    plugins: [marksPlugin(data.marks)],
    hooks: { setCursor: [show], ready: [show] },
  }, [data.xs, ...data.series.map((series) => series.ys)], element);
  const over = element.querySelector(".u-over");
  over.setAttribute("role", "img");
  over.setAttribute("aria-label", `${data.y} by ${data.x}`);
  element.append(legend);
  charts.set(element, { plot, legend });
}

function drawCharts(root = document) {
  if (typeof uPlot === "undefined") return;
  all("[data-chart]", root).forEach(drawChart);
}

let resizing = 0;
addEventListener("resize", () => {
  clearTimeout(resizing);
  resizing = setTimeout(() => charts.forEach(({ plot }, element) => plot.setSize({ width: element.clientWidth, height: 210 })), 120);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach(({ plot }) => plot.redraw()));

// ---- live pages: the page is asked for again while something runs and the tab is visible; what changed is replaced.
const LIVE_MILLISECONDS = 2000;
let tag = "";

function replaceParts(text) {
  const fresh = new DOMParser().parseFromString(text, "text/html");
  if (document.querySelector("[data-reading]") && !fresh.querySelector("[data-reading]")) return location.reload();
  const ticked = new Set(all('input[name="r"]:checked').map((box) => box.value));
  all("[data-part]").forEach((part) => {
    const other = fresh.querySelector(`[data-part="${part.dataset.part}"]`);
    if (!other || other.innerHTML === part.dataset.last) return;
    const focused = part.contains(document.activeElement) ? document.activeElement.getAttribute("href") : null;
    part.dataset.last = other.innerHTML;
    all("[data-chart]", part).forEach((element) => { charts.get(element)?.plot.destroy(); charts.delete(element); });
    part.replaceChildren(...other.childNodes);
    all('input[name="r"]', part).forEach((box) => { box.checked = ticked.has(box.value); });
    if (focused) part.querySelector(`[href="${CSS.escape(focused)}"]`)?.focus();
    drawCharts(part);
    watchPictures(part);
  });
  if (fresh.body.dataset.live === undefined) delete document.body.dataset.live;
  document.dispatchEvent(new Event("provml:update"));
}

async function poll() {
  if (document.body.dataset.live === undefined) return;
  if (document.visibilityState === "visible") {
    try {
      const answer = await fetch(location.href, { headers: tag ? { "If-None-Match": tag } : {}, cache: "no-store" });
      if (answer.status === 200) { tag = answer.headers.get("ETag") || ""; replaceParts(await answer.text()); }
    } catch { /* the service is away: try again */ }
  }
  setTimeout(poll, LIVE_MILLISECONDS);
}

// ---- graphs: focus or point at a node, and its whole path stands out
function watchPictures(root = document) {
  all(".picture", root).forEach((picture) => {
    const walk = (start, from, to) => {
      const edges = all(".edge[data-later]", picture);
      const nodes = new Set([start]), stack = [start];
      while (stack.length) {
        const node = stack.pop();
        edges.filter((edge) => edge.dataset[from] === node).forEach((edge) => {
          edge.classList.add("on");
          const next = edge.dataset[to];
          if (!nodes.has(next)) { nodes.add(next); stack.push(next); }
        });
      }
      return nodes;
    };
    const clear = () => { picture.classList.remove("tracing"); all(".on", picture).forEach((element) => element.classList.remove("on")); };
    const trace = (event) => {
      const node = event.target.closest(".n[data-node]") || event.target.closest("a")?.querySelector(".n[data-node]");
      clear();
      if (!node) return;
      const path = new Set([...walk(node.dataset.node, "later", "earlier"), ...walk(node.dataset.node, "earlier", "later")]);
      all(".n[data-node]", picture).forEach((other) => other.classList.toggle("on", path.has(other.dataset.node)));
      picture.classList.add("tracing");
    };
    picture.addEventListener("mouseover", trace);
    picture.addEventListener("mouseleave", clear);
    picture.addEventListener("focusin", trace);
    picture.addEventListener("focusout", clear);
  });
  all("[data-full]", root).forEach((button) => button.addEventListener("click", () => {
    const picture = document.querySelector(".picture");
    button.textContent = picture.classList.toggle("full") ? "Fit" : "Full size";
  }));
  all("[data-png]", root).forEach((button) => button.addEventListener("click", async () => {
    const text = await (await fetch(button.dataset.png)).text();
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = image.width * 2; canvas.height = image.height * 2;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      const link = document.createElement("a");
      link.href = canvas.toDataURL("image/png");
      link.download = "lineage.png";
      link.click();
    };
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  }));
}

// ---- copy buttons
function addCopyButtons() {
  if (!navigator.clipboard) return;
  all(".copyable").forEach((part) => {
    const button = document.createElement("button");
    button.type = "button"; button.className = "copy"; button.textContent = "Copy";
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(part.querySelector("code").textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
    part.append(button);
  });
}

// ---- SPARQL: colours under the text, and completion of prefixes, terms and variables
const TOKENS = /(#[^\n]*)|("""[^]*?"""|'''[^]*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(<[^<>"{}|^`\\\s]*>)|([?$]\w+)|(\b[A-Za-z][\w-]*)?:([\w.%-]*[\w%-])?|(\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(\b[A-Za-z]+\b)/g;
const KEYWORDS = new Set("BASE PREFIX SELECT DISTINCT REDUCED CONSTRUCT DESCRIBE ASK FROM NAMED WHERE ORDER BY ASC DESC LIMIT OFFSET VALUES OPTIONAL GRAPH UNION MINUS FILTER BIND AS EXISTS NOT IN GROUP HAVING COUNT SUM MIN MAX AVG SAMPLE GROUP_CONCAT SEPARATOR UNDEF TRUE FALSE STR LANG DATATYPE IRI BOUND COALESCE IF REGEX REPLACE STRSTARTS STRENDS CONTAINS CONCAT LCASE UCASE STRLEN SUBSTR ABS ROUND CEIL FLOOR NOW YEAR MONTH DAY ISIRI ISLITERAL ISNUMERIC A".split(" "));
const escapeHtml = (text) => text.replace(/[&<>]/g, (character) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[character]);

function colored(text) {
  let result = "", last = 0;
  for (const match of text.matchAll(TOKENS)) {
    const [token, comment, string, iri, variable, , , number, word] = match;
    const kind = comment ? "comment" : string ? "string" : iri ? "iri" : variable ? "variable" : number ? "number"
      : word ? (KEYWORDS.has(word.toUpperCase()) ? "keyword" : "") : "name";
    result += escapeHtml(text.slice(last, match.index));
    result += kind ? `<span class="t-${kind}">${escapeHtml(token)}</span>` : escapeHtml(token);
    last = match.index + token.length;
  }
  return result + escapeHtml(text.slice(last));
}

function watchEditor() {
  const editor = document.querySelector(".editor");
  if (!editor) return;
  const area = editor.querySelector("textarea");
  const back = editor.querySelector("pre");
  const terms = JSON.parse(editor.querySelector("script").textContent);
  const errorLine = Number(editor.dataset.line || 0);
  const original = area.value;
  const paint = () => {
    let html = colored(area.value) + "\n";
    if (errorLine && area.value === original) {
      html = html.split("\n").map((line, index) => index === errorLine - 1 ? `<span class="error-line">${line || " "}</span>` : line).join("\n");
    }
    back.innerHTML = html;
    back.scrollTop = area.scrollTop;
  };
  editor.classList.add("lit");
  area.addEventListener("input", () => { paint(); complete(false); });
  area.addEventListener("scroll", () => { back.scrollTop = area.scrollTop; });
  new ResizeObserver(() => { back.style.height = `${area.offsetHeight}px`; }).observe(area);
  const list = document.createElement("ul");
  list.className = "completion"; list.hidden = true; list.setAttribute("role", "listbox"); list.id = "completion";
  list.setAttribute("aria-label", "Completions");
  area.setAttribute("aria-controls", "completion");
  editor.append(list);
  let chosen = 0, matches = [], word = "";
  const hide = () => { list.hidden = true; matches = []; };
  const insert = (text) => {
    const end = area.selectionStart;
    area.setRangeText(text, end - word.length, end, "end");
    hide(); paint(); area.focus();
  };
  const draw = () => list.replaceChildren(...matches.map((text, index) => {
    const item = document.createElement("li");
    item.textContent = text; item.setAttribute("role", "option"); item.setAttribute("aria-selected", String(index === chosen));
    item.addEventListener("mousedown", (event) => { event.preventDefault(); insert(text); });
    return item;
  }));
  const complete = (forced) => {
    word = (area.value.slice(0, area.selectionStart).match(/[?$:\w-]+$/) || [""])[0];
    if (!word && !forced) return hide();
    const lower = word.toLowerCase();
    const variables = [...new Set(area.value.match(/[?$]\w+/g) || [])];
    const pool = /^[?$]/.test(word) ? variables : terms;
    const local = (text) => text.slice(text.indexOf(":") + 1).toLowerCase();
    matches = pool.filter((text) => text !== word && (text.toLowerCase().startsWith(lower) || (lower.length > 2 && local(text).startsWith(lower)))).slice(0, 40);
    if (!matches.length || (!forced && word.length < 2)) return hide();
    chosen = 0; draw();
    const before = area.value.slice(0, area.selectionStart).split("\n");
    const lineHeight = parseFloat(getComputedStyle(area).lineHeight);
    list.style.top = `${Math.min(before.length * lineHeight + 14 - area.scrollTop, area.offsetHeight)}px`;
    list.style.left = `${Math.min(before.at(-1).length * 8 + 14, Math.max(area.clientWidth - 260, 0))}px`;
    list.hidden = false;
  };
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); area.form.requestSubmit(); return; }
    if (event.key === " " && event.ctrlKey) { event.preventDefault(); complete(true); return; }
    if (list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      chosen = (chosen + (event.key === "ArrowDown" ? 1 : matches.length - 1)) % matches.length;
      draw(); list.children[chosen].scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" || event.key === "Tab") { event.preventDefault(); insert(matches[chosen]); }
    else if (event.key === "Escape") { event.stopPropagation(); hide(); }
  });
  area.addEventListener("blur", hide);
  paint();
}

// ---- forms that show their effect at once: the query builder
function watchForms() {
  all("form[data-preview]").forEach((form) => {
    let timer = 0;
    form.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(async () => {
        const fields = new URLSearchParams(new FormData(form));
        fields.delete("run");
        const answer = await fetch(`${form.getAttribute("action")}?${fields}`);
        if (answer.ok) replaceParts(await answer.text());
      }, 250);
    });
  });
}

// ---- the filter of a site of files, which has no server: conditions on columns, or words, joined by "and"
const CONDITION = /^([^<>=!]+?)\s*(<=|>=|==|!=|<|>|=)\s*(.+)$/;
const COMPARE = { "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b, "==": (a, b) => a === b, "!=": (a, b) => a !== b };
function condition(text, names) {
  const [, name, sign, quoted] = text.match(CONDITION) || [];
  if (!name) return (row) => row.textContent.toLowerCase().includes(text.toLowerCase());
  const column = names.indexOf(name);
  if (column < 0) return null;
  const wanted = quoted.replace(/^(['"])(.*)\1$/, "$2");
  return (row) => {
    const cell = row.cells[column];
    const value = cell.dataset.value ?? cell.querySelector("[title]")?.title ?? cell.textContent.trim();
    if (value === "") return false;
    const isNumber = !isNaN(value) && !isNaN(wanted);
    return COMPARE[sign === "=" ? "==" : sign](isNumber ? Number(value) : value.toLowerCase(), isNumber ? Number(wanted) : wanted.toLowerCase());
  };
}
function watchFilter() {
  const input = document.querySelector("[data-filter]");
  if (!input) return;
  document.querySelector("[data-filter-bar]").hidden = false;
  const hint = document.querySelector("[data-filter-hint]"), table = document.querySelector('[data-part="runs"] table');
  const names = all("thead tr:last-child th", table).map((head) => head.dataset.name || head.textContent.trim());
  const rows = all("tbody tr:not(.group)", table), text = hint.textContent;
  input.addEventListener("input", () => {
    const parts = input.value.split(/\s+and\s+/i).map((part) => part.trim()).filter(Boolean);
    const tests = parts.map((part) => condition(part, names));
    const unknown = parts[tests.indexOf(null)];
    if (unknown) { hint.textContent = `No column is named ${unknown.match(CONDITION)[1]}.`; return; }
    rows.forEach((row) => { row.hidden = !tests.every((test) => test(row)); });
    hint.textContent = parts.length ? `${rows.filter((row) => !row.hidden).length} of ${rows.length} rows` : text;
  });
}

// ---- the address of a run that MLflow's client prints
const printed = location.hash.match(/^#\/experiments\/[^/]+\/runs\/([\w-]+)/);
if (printed && location.pathname === "/") location.replace(`/runs/${printed[1]}`);

watchSelection();
watchFilter();
drawCharts();
watchPictures();
addCopyButtons();
watchEditor();
watchForms();
if (document.body.dataset.live !== undefined) setTimeout(poll, LIVE_MILLISECONDS);
