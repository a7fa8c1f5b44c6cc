// The record of a result in a notebook: made interactive in place, folded while its widget lives.

/** A model for where no kernel is, as the view expects it.
 * @param {Object<string, any>} state */
export function local(state) {
  const events = new EventTarget();
  return {
    get: (name) => state[name],
    set: (name, value) => {
      state[name] = value;
      events.dispatchEvent(new Event(`change:${name}`));
    },
    save_changes: () => {},
    on: (event, act) => events.addEventListener(event, act),
  };
}

/** Upgrade a record. @param {{render: Function}} view @param {HTMLElement} root
 * @param {string} packed traits and token, as JSON in base64 */
export function upgrade(view, root, packed) {
  if (root.classList.contains("dpnb-on")) return;
  const { token, ...state } = JSON.parse(atob(packed));
  view.render({ model: local(state), el: root });
  const area = root.closest(".jp-OutputArea, .cell_container, #output-area");
  if (!token || !area) return;
  const look = () => {
    fold(root, area.querySelector(`[data-dpnb-live="${token}"]`) !== null);
    const next = root.closest(".jp-OutputArea-child")?.nextElementSibling;
    const output = next?.querySelector(".jp-OutputArea-output");
    // JupyterLab puts bare words where a widget will be, or can no longer be
    const bare = output && !output.children.length && /widget/.test(output.textContent);
    if (next) next.style.display = bare ? "none" : "";
  };
  new MutationObserver(look).observe(area, { childList: true, subtree: true, characterData: true });
  look();
}

/** One look: while its widget is alive, the record is one line that can be opened.
 * @param {HTMLElement} root @param {boolean} live */
function fold(root, live) {
  const details = root.querySelector(".dpnb-fold"), body = root.querySelector(".dpnb-body");
  if (live === (details !== null)) return;
  if (!live) {
    details.replaceWith(body);
    return;
  }
  const folded = document.createElement("details"), summary = document.createElement("summary");
  folded.className = "dpnb-fold";
  summary.textContent = "Saved copy of this result";
  summary.setAttribute("data-lm-suppress-shortcuts", "true");
  body.replaceWith(folded);
  folded.append(summary, body);
}
