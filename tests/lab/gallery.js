// What a test measures in a notebook that shows results: returns what breaks a rule, in words.
(() => {
  const roots = () => [...document.querySelectorAll(".jp-Notebook :is(.dpnb, .dp)")].filter((el) => el.offsetParent);
  const seen = (el) => el.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true });
  const told = (el) => `${el.className?.baseVal ?? el.className} ${el.textContent.trim().slice(0, 60)}`;
  const texts = (root) => {
    const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT), found = [];
    while (walker.nextNode()) {
      const node = walker.currentNode, el = node.parentElement;
      if (node.data.trim() && !el.closest("style, script, option, select") && seen(el)) found.push(node);
    }
    return found;
  };
  const boxes = (node) => {
    const range = document.createRange();
    range.selectNodeContents(node);
    return [...range.getClientRects()].filter((box) => box.width > 1);
  };
  const scrolls = (el) => /auto|scroll/.test(getComputedStyle(el).overflowX);
  const within = (node, test) => {
    for (let el = node.parentElement; el && !el.matches(".jp-OutputArea-output"); el = el.parentElement) {
      if (test(el)) return el;
    }
    return null;
  };
  // a name that is cut says itself in full when pointed at
  const named = (el) => el.closest("[title]") || el.querySelector("title");

  const wide = () => {
    const found = [];
    for (const out of document.querySelectorAll(".jp-Notebook .jp-OutputArea-output")) {
      if (out.scrollWidth > out.clientWidth + 1) found.push(`output is wide: ${told(out)}`);
    }
    for (const root of roots()) {
      for (const el of root.querySelectorAll("*")) {
        if (!seen(el) || el.scrollWidth <= el.clientWidth + 1 || !el.clientWidth) continue;
        const style = getComputedStyle(el), held = el.tabIndex >= 0 && el.ariaLabel;
        if (scrolls(el) && !held) found.push(`scrolls, but not by key: ${told(el)}`);
        if (/hidden|clip/.test(style.overflowX) && texts(el).length && !named(el)) {
          found.push(`clipped: ${told(el)}`);
        }
      }
      const edge = (root.closest(".jp-OutputArea-output") ?? root).getBoundingClientRect();
      for (const node of texts(root)) {
        if (within(node, (el) => scrolls(el) || (named(el) && getComputedStyle(el).overflowX === "hidden"))) continue;
        const out = boxes(node).some((box) => box.right > edge.right + 2 || box.left < edge.left - 2);
        if (out) found.push(`beyond its output: ${node.data.trim().slice(0, 60)}`);
      }
    }
    return found;
  };

  const overlapping = () => {
    const found = [];
    for (const root of roots()) {
      // marks are drawn where the values are
      const all = texts(root).filter((node) => !within(node, (el) => scrolls(el) || el.matches("svg")))
        .flatMap((node) => boxes(node).map((box) => ({ node, box })));
      all.sort((a, b) => a.box.top - b.box.top);
      all.forEach(({ node, box }, i) => {
        for (let k = i + 1; k < all.length && all[k].box.top < box.bottom; k += 1) {
          const other = all[k].box;
          const high = Math.min(box.bottom, other.bottom) - other.top;
          const long = Math.min(box.right, other.right) - Math.max(box.left, other.left);
          if (high > 5 && long > 3 && all[k].node !== node) {
            found.push(`${node.data.trim().slice(0, 40)} / ${all[k].node.data.trim().slice(0, 40)}`);
          }
        }
      });
    }
    return found;
  };

  const sized = () => {
    const found = [];
    for (const root of roots()) {
      const base = parseFloat(getComputedStyle(root).fontSize);
      const token = (name) => getComputedStyle(root.querySelector(".dp-card") ?? root).getPropertyValue(name);
      const scale = root.matches(".dp") ? ["--dp-t0", "--dp-t1", "--dp-t2", "--dp-t3"].map((name) => parseFloat(token(name)))
        : ["--title", "--small", "--tiny"].map((name) => parseFloat(token(name)) * base);
      const check = (style, what) => {
        const size = parseFloat(style.fontSize);
        if (![base, ...scale].some((one) => Math.abs(one - size) < .05)) found.push(`${size} px: ${what}`);
      };
      for (const node of texts(root)) check(getComputedStyle(node.parentElement), node.data.trim().slice(0, 60));
      for (const el of root.querySelectorAll("select, input[type=number], [data-label]")) {
        if (seen(el)) check(getComputedStyle(el, el.dataset.label ? "::after" : null), told(el));
      }
    }
    return found;
  };

  const coloured = () => {
    const found = [];
    for (const root of roots()) {
      const probe = document.createElement("span"), home = root.querySelector(".dpnb-decide") ?? root;
      home.append(probe);
      const names = root.matches(".dp") ? ["dp-ink", "dp-ink-2", "dp-ground", "dp-known", "dp-noise-text"]
        : ["ink", "muted", "ground", "mark", "doubt"];
      const listed = names.map((name) => {
        probe.style.color = `var(--${name}, var(--ink))`;
        return getComputedStyle(probe).color;
      });
      probe.remove();
      for (const node of texts(root)) {
        const style = getComputedStyle(node.parentElement);
        const color = node.parentElement.closest("svg") ? style.fill : style.color;
        if (!listed.includes(color)) found.push(`${color}: ${node.data.trim().slice(0, 60)}`);
      }
    }
    return found;
  };

  const controls = () => roots().flatMap((root) => [...root.querySelectorAll(
    "a[href], button, select, input, summary, [tabindex]",
  )]).filter((el) => seen(el) && !el.disabled && el.tabIndex >= 0);

  window.gallery = {
    wide, overlapping, sized, coloured,
    words: () => roots().flatMap((root) => texts(root).filter((node) => !node.parentElement.closest("code"))
      .map((node) => node.data)).concat([...document.querySelectorAll(".jp-Notebook .jp-OutputArea-output:not(:has(.dpnb, .dp))")]
      .map((el) => el.innerText)),
    sentences: () => roots().flatMap((root) => [...root.querySelectorAll("p, td, th, dt, dd, output, caption")])
      .filter((el) => seen(el) && !el.querySelector("code")).map((el) => el.innerText),
    count: () => { controls().forEach((el, i) => { el.dataset.place = i; }); return controls().length; },
    start: (place) => document.querySelector(`[data-place="${place}"]`).focus(),
    focused: () => {
      const el = document.activeElement, style = getComputedStyle(el);
      const ring = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
      return [el.closest(".dpnb, .dp") ? Number(el.dataset.place ?? -1) : -1, ring, told(el)];
    },
    outputs: () => {
      const first = new Map();
      controls().forEach((el) => {
        const home = el.closest(".jp-OutputArea-output");
        first.set(home, [...(first.get(home) ?? []), Number(el.dataset.place)]);
      });
      return [...first.values()];
    },
    silent: () => [...document.querySelectorAll(".jp-Notebook .dpnb")].filter((el) => /kernel does not answer/.test(el.innerText)).length,
    plant: (html) => {
      const first = roots().flatMap((root) => texts(root))[0], made = document.createElement("div");
      const home = first.parentElement.closest(":is(.dpnb, .dp) > *");
      made.className = "planted";
      made.innerHTML = html;
      home.append(made);
    },
    clear: () => document.querySelectorAll(".planted").forEach((el) => el.remove()),
  };
})();
