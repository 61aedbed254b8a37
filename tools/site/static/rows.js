// A page that lies in a folder may not read other pages: search then shows titles alone.
if (location.protocol === "file:") {
  DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;
}

// The filters above a table of claims. The choice is kept in the address, so that it can be sent.
const lists = [...document.querySelectorAll("select[data-by]")];
const rows = [...document.querySelectorAll("tr[data-row]")];
const words = document.querySelector("input[data-words]");

const isAskedFor = row => {
  const needles = words.value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = row.textContent.toLowerCase();
  return lists.every(list => !list.value || row.dataset[list.dataset.by] === list.value)
    && needles.every(needle => text.includes(needle));
};

const show = () => {
  for (const row of rows) row.hidden = !isAskedFor(row);
  const shown = rows.filter(row => !row.hidden).length;
  document.getElementById("shown").textContent = `${shown} of ${rows.length}`;
};

const keep = () => {
  const chosen = lists.filter(list => list.value).map(list => [list.dataset.by, list.value]);
  if (words.value) chosen.push(["words", words.value]);
  const address = chosen.length ? "#" + new URLSearchParams(chosen) : "#";
  history.replaceState(null, "", address);
};

const choose = () => {
  const asked = new URLSearchParams(location.hash.slice(1));
  for (const list of lists) list.value = asked.get(list.dataset.by) ?? "";
  words.value = asked.get("words") ?? "";
  show();
};

if (words) {
  for (const list of lists) {
    const values = new Set(rows.map(row => row.dataset[list.dataset.by]).filter(Boolean));
    for (const value of values) list.add(new Option(value.replaceAll("_", " "), value));
    list.addEventListener("change", () => { show(); keep(); });
  }
  words.addEventListener("input", () => { show(); keep(); });
  window.addEventListener("hashchange", choose);
  choose();
}
