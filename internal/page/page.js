// Keeps the page up to date: fetches the parts that change every two seconds, while somebody looks.
"use strict";
(() => {
  const every = 2000, patience = 5000;
  const pause = document.getElementById("pause"), silent = document.getElementById("silent");
  const top = document.getElementById("top");
  let paused = false, timer = 0, answered = new Date(), run = top.dataset.run, restarted = "";

  // morph makes the children of old those of fresh, and keeps the elements that are there: so focus and
  // selection stay where they are.
  const morph = (old, fresh) => {
    if (old.id === "pause") return;
    for (const a of [...old.attributes]) if (!fresh.hasAttribute(a.name)) old.removeAttribute(a.name);
    for (const a of fresh.attributes) if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
    const children = [...fresh.childNodes];
    children.forEach((to, i) => {
      const from = old.childNodes[i];
      if (!from) old.append(document.importNode(to, true));
      else if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) from.replaceWith(document.importNode(to, true));
      else if (to.nodeType === Node.ELEMENT_NODE) morph(from, to);
      else if (from.data !== to.data) from.data = to.data;
    });
    while (old.childNodes.length > children.length) old.lastChild.remove();
  };

  const clock = (at) => at.toTimeString().slice(0, 8);

  const say = (text, stale) => {
    if (silent.textContent !== text) silent.textContent = text;
    silent.hidden = text === "";
    silent.className = stale ? "" : "note";
    document.body.classList.toggle("stale", stale);
    const pill = document.querySelector(".pill");
    if (stale && pill) [pill.className, pill.textContent] = ["pill urgent", "no answer"]; // the next answer sets it again
  };

  // The same names as in the page, and no id.
  const live = new URLSearchParams(location.search);
  live.delete("id");
  live.set("live", "1");

  const refresh = async () => {
    try {
      const answer = await fetch("?" + live, {headers: {Accept: "text/html"}, cache: "no-store", signal: AbortSignal.timeout(patience)});
      if (!answer.ok) throw new Error("status " + answer.status);
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const part of fresh.querySelectorAll("[data-live]")) morph(document.getElementById(part.id) ?? document.createElement(part.nodeName), part); // another version's part has no place here
      document.title = top.dataset.title;
      answered = new Date();
      if (top.dataset.run !== run) {
        run = top.dataset.run;
        restarted = "The daemon was restarted at " + clock(new Date(top.dataset.started)) + ". Its counts began anew.";
      }
      say(restarted, false);
    } catch {
      say("No answer since " + clock(answered) + ". What you see is from then; the page goes on asking.", true);
      document.title = "no answer since " + clock(answered) + " · " + top.dataset.title.replace(/^[^·]*· /, "");
    }
  };

  const next = () => {
    clearTimeout(timer);
    if (!paused && !document.hidden) timer = setTimeout(async () => { await refresh(); next(); }, every);
  };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
    next();
  });
  document.addEventListener("visibilitychange", async () => {
    if (!document.hidden && !paused) await refresh();
    next();
  });

  for (const row of document.querySelectorAll(".local")) {
    const at = row.parentElement.querySelector("time");
    row.querySelector("dd").textContent = new Date(at.dateTime).toLocaleString(undefined, {dateStyle: "medium", timeStyle: "long"});
    row.hidden = false;
  }
  next();
})();
