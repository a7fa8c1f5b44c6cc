// What stays where a picker was has nothing to pick: it only gives way while its picker lives.

/** @param {{el: HTMLElement}} context */
function render({ el }) {
  el.classList.add("dpnb-on");
}

export default { render };
