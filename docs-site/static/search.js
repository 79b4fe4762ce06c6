// The search: all words must be in a section. Those in its heading or its page's title count more, and most if they
// stand together, as in an error's text. searchIndex is made with the site, so nothing is asked over the network.
"use strict";
const box = document.getElementById("search"), list = document.getElementById("found");
const root = document.currentScript.src.replace(/search\.js$/, "");
for (const s of searchIndex) s.all = (s.page + "\n" + s.head + "\n" + s.text).toLowerCase();

function score(s, words) {
  let n = words.length > 1 && s.all.includes(words.join(" ")) ? 40 : 0;
  for (const w of words) {
    if (!s.all.includes(w)) return 0;
    n += s.head.toLowerCase().includes(w) ? 20 : s.page.toLowerCase().includes(w) ? 5 : 1;
    n += Math.min(4, s.all.split(w).length - 1) / 4;
  }
  return n - s.text.length / 1e5;
}

function snippet(s, words) {
  const text = s.text.toLowerCase(), phrase = text.indexOf(words.join(" "));
  const at = Math.max(0, (phrase < 0 ? text.indexOf(words[0]) : phrase) - 50);
  return (at ? "… " : "") + s.text.slice(at, at + 150) + " …";
}

function search() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  const hits = words.length ? searchIndex.map(s => [score(s, words), s]).filter(h => h[0] > 0) : [];
  hits.sort((a, b) => b[0] - a[0]);
  list.replaceChildren(...hits.slice(0, 20).map(([, s]) => {
    const li = document.createElement("li"), a = document.createElement("a");
    const head = document.createElement("b"), text = document.createElement("small");
    a.href = root + s.url;
    head.textContent = s.head === s.page ? s.page : s.head + " · " + s.page;
    text.textContent = snippet(s, words);
    a.append(head, text);
    li.append(a);
    return li;
  }));
  if (words.length && !hits.length) list.innerHTML = "<li><small>Nothing has all of these words.</small></li>";
  list.hidden = !words.length;
}

function move(by) {
  const links = [...list.querySelectorAll("a")], at = links.indexOf(document.activeElement);
  if (links.length) (at + by < 0 ? box : links[Math.min(at + by, links.length - 1)]).focus();
}

box.addEventListener("input", search);
document.addEventListener("keydown", e => {
  if (e.key === "/" && document.activeElement !== box) { e.preventDefault(); box.focus(); box.select(); }
  else if (e.key === "Escape") { list.hidden = true; box.blur(); }
  else if (!list.hidden && e.key === "ArrowDown") { e.preventDefault(); move(1); }
  else if (!list.hidden && e.key === "ArrowUp") { e.preventDefault(); move(-1); }
  else if (e.key === "Enter" && document.activeElement === box) list.querySelector("a")?.click();
});
document.addEventListener("click", e => { if (!e.target.closest("search") || e.target.closest("#found a")) list.hidden = true; });

box.value = new URLSearchParams(location.search).get("q") ?? ""; // so that a search can be linked to
if (box.value) search();
if (matchMedia("(max-width: 52rem)").matches) document.querySelector("nav details").open = false;
