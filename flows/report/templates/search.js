(() => {
  const search = document.querySelector(".search");
  const [text, ...choices] = search.querySelectorAll("input, select");
  const shown = search.querySelector("[role=status]");
  const entries = [...document.querySelectorAll("[data-model]")];
  const show = () => {
    const words = text.value.toLowerCase().split(/\s+/);
    const fits = (entry) =>
      words.every((word) => entry.dataset.model.toLowerCase().includes(word)) &&
      choices.every((choice) => !choice.value || entry.dataset[choice.name] === choice.value);
    for (const entry of entries) entry.hidden = !fits(entry);
    const rows = entries.filter((entry) => entry.tagName === "TR");
    shown.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} models`;
  };
  search.hidden = false;
  search.addEventListener("input", show);
  show();
})();
