"use strict";
(() => {
  const box = document.getElementById("filter"), none = document.getElementById("none");
  const all = [...document.querySelectorAll("details.op")];
  const links = new Map([...document.querySelectorAll("li[data-op]")].map((one) => [one.dataset.op, one]));
  const apply = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const one of all) {
      const fits = words.every((word) => one.dataset.words.includes(word));
      one.hidden = !fits;
      links.get(one.id).hidden = !fits;
      shown += fits ? 1 : 0;
    }
    for (const group of document.querySelectorAll("section.group"))
      group.hidden = !group.querySelector("details.op:not([hidden])");
    for (const tag of document.querySelectorAll("div.tag")) tag.hidden = !tag.querySelector("li:not([hidden])");
    none.hidden = shown > 0;
  };
  const open = () => {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") {
      if (target.hidden) {
        box.value = "";
        apply();
      }
      target.open = true;
      target.scrollIntoView();
    }
  };
  box.addEventListener("input", apply);
  addEventListener("hashchange", open);
  addEventListener("keydown", (event) => {
    if (event.key === "/" && document.activeElement !== box && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      box.focus();
    } else if (event.key === "Escape" && document.activeElement === box) {
      box.value = "";
      apply();
    }
  });
  addEventListener("click", (event) => {
    const link = event.target.closest && event.target.closest("li[data-op] a");
    if (link && link.hash === location.hash) open();
  });
  apply();
  open();
})();
