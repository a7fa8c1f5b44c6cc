// What the views of answers and explanations share: a table whose rows can be picked.

/** @param {string} tag @param {string} className @param {(Node | string)[]} children */
export function make(tag, className, ...children) {
  const node = Object.assign(document.createElement(tag), { className });
  // else JupyterLab takes the keys away
  if (/select|button/.test(tag)) node.setAttribute("data-lm-suppress-shortcuts", "true");
  node.append(...children);
  return node;
}

/** Take over a record, or fill a widget; returns the table and what sets a trait.
 * @param {{model: any, el: HTMLElement}} context */
export function opened({ model, el }) {
  const { body } = model.get("data");
  if (body) {
    el.innerHTML = body; // written and escaped by dpnb/display/html.py
    el.dataset.dpnbLive = model.get("token");
  }
  el.classList.add("dpnb", "dpnb-on");
  const change = (name, value) => { model.set(name, value); model.save_changes(); };
  return { table: el.querySelector("table"), change };
}

/** Where a key leads among the rows as shown; null where it leads nowhere.
 * @param {string} key @param {number} at @param {number} count */
export function step(key, at, count) {
  const to = { ArrowUp: at - 1, ArrowDown: at + 1, Home: 0, End: count - 1 }[key];
  return to === undefined ? null : Math.min(count - 1, Math.max(0, to));
}

/** Let rows be picked, by mouse and by key; returns what marks them, each with a letter or "".
 * @param {HTMLTableElement} table @param {string[]} names @param {(row: number) => void} act */
export function pickable(table, names, act) {
  const rows = [...table.tBodies[0].rows];
  const picks = rows.map((row, i) => {
    const pick = make("button", "dpnb-pick");
    pick.tabIndex = i ? -1 : 0;
    pick.ariaLabel = `Pick ${names[i]}`;
    row.cells[0].prepend(pick);
    row.onclick = (event) => {
      // no pick in a folded record, nor while text is being copied
      if (!pick.offsetParent || (event.target !== pick && String(getSelection()))) return;
      act(i);
    };
    return pick;
  });
  table.onkeydown = (event) => {
    const shown = /** @type {HTMLElement[]} */ ([...table.querySelectorAll(".dpnb-pick")]);
    const at = shown.indexOf(event.target), next = at < 0 ? null : step(event.key, at, shown.length);
    if (next === null) return;
    shown.forEach((pick, i) => { pick.tabIndex = i === next ? 0 : -1; });
    shown[next].focus();
    event.preventDefault();
  };
  return (marks) => picks.forEach((pick, i) => {
    pick.textContent = marks[i];
    pick.ariaPressed = marks[i] !== "";
    rows[i].classList.toggle("dpnb-picked", marks[i] !== "");
  });
}
