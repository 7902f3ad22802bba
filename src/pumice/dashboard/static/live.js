// Keeps a page up to date, signs in by a one-time link, and lets time pass. Everything can be read without it.
"use strict";

(() => {
  const body = document.body;

  // ------------------------------------------------------------------------------------------- signing in by a link

  function enter() {
    const token = /^#token=([\w-]{20,200})$/.exec(location.hash);
    if (!token) return;
    history.replaceState(null, "", location.pathname + location.search); // no copy of it in the browser's history
    const field = document.getElementById("secret");
    if (!field) return;
    field.value = token[1];
    field.form.submit();
  }

  addEventListener("hashchange", enter);
  enter();

  // ------------------------------------------------------------------------------------------- time goes on

  // As `kubectl get` prints ages: two or three significant figures.
  function span(seconds) {
    const s = Math.max(0, Math.floor(seconds));
    const m = Math.floor(s / 60), h = Math.floor(s / 3600), d = Math.floor(s / 86400), y = Math.floor(d / 365);
    const two = (great, unit, small, less) => great + unit + (small ? small + less : "");
    if (s < 120) return s + "s";
    if (m < 10) return two(m, "m", s % 60, "s");
    if (m < 180) return m + "m";
    if (h < 8) return two(h, "h", m % 60, "m");
    if (h < 48) return h + "h";
    if (d < 8) return two(d, "d", h % 24, "h");
    if (y < 2) return d + "d";
    return two(y, "y", d % 365, "d");
  }

  function tick() {
    for (const each of document.querySelectorAll("time[data-ago], time[data-ahead]")) {
      const seconds = (Date.now() - Date.parse(each.dateTime)) / 1000;
      const text = "ago" in each.dataset ? span(seconds) : seconds < 0 ? "in " + span(-seconds) : "now";
      if (each.textContent !== text) each.textContent = text;
    }
  }

  // ------------------------------------------------------------------------------------------- parts that change

  const status = document.getElementById("connection");
  const say = (text) => { if (status && status.textContent !== text) status.textContent = text; };

  // What people have opened, scrolled and focused stays so.
  function replace(id, html) {
    const old = document.getElementById(id);
    if (!old) return;
    const holder = document.createElement("template");
    holder.innerHTML = html;
    const fresh = holder.content.firstElementChild;
    if (!fresh) return;
    for (const each of old.querySelectorAll("details[id]")) {
      const own = fresh.querySelector("#" + CSS.escape(each.id));
      if (own) own.open = each.open;
    }
    const scrolled = [...old.querySelectorAll(".scroll")].map((each) => each.scrollLeft);
    const path = old.contains(document.activeElement) ? route(old, document.activeElement) : null;
    old.replaceWith(fresh);
    [...fresh.querySelectorAll(".scroll")].forEach((each, n) => { each.scrollLeft = scrolled[n] || 0; });
    const again = path && follow(fresh, path);
    if (again && again.focus) again.focus({ preventScroll: true });
  }

  function route(root, element) {
    const path = [];
    for (let at = element; at !== root; at = at.parentElement) path.unshift([...at.parentElement.children].indexOf(at));
    return path;
  }

  function follow(root, path) {
    return path.reduce((at, n) => at && at.children[n], root);
  }

  let stream = null;

  function connect() {
    const page = encodeURIComponent(location.pathname + location.search);
    stream = new EventSource("/live?page=" + page + "&seen=" + body.dataset.seen);
    stream.addEventListener("open", () => say("live"));
    stream.addEventListener("patch", (event) => {
      const told = JSON.parse(event.data);
      body.dataset.seen = told.seen;
      for (const [id, html] of Object.entries(told.parts)) replace(id, html);
      tick();
      say("live");
    });
    stream.addEventListener("leave", (event) => {
      stream.close();
      if (event.data === "sign in") location.assign("/sign-in");
      else location.reload();
    });
    stream.addEventListener("error", () => {
      say("not connected; trying again");
      if (stream.readyState === EventSource.CLOSED) setTimeout(connectAgain, 5000);
    });
  }

  // The server refused the stream: too many are open, or the session is over, and then the page itself leads to the sign-in.
  function connectAgain() {
    fetch(location.href, { redirect: "manual" }).then(
      (answer) => { if (answer.type === "opaqueredirect") location.reload(); else connect(); },
      () => setTimeout(connectAgain, 5000),
    );
  }

  if ("live" in body.dataset) {
    // A page in the background needs no stream: it is loaded anew when somebody looks again.
    document.addEventListener("visibilitychange", () => {
      if (document.hidden && stream) { stream.close(); stream = null; }
      else if (!document.hidden && !stream) connect();
    });
    addEventListener("pagehide", () => { if (stream) stream.close(); });
    if (!document.hidden) connect();
  }
  tick();
  setInterval(tick, 1000);

  // ------------------------------------------------------------------------------------------- keys and forms

  const here = document.querySelector("nav [aria-current]");
  if (here) here.scrollIntoView({ block: "nearest", inline: "center" }); // on a telephone the menu is wider than the screen

  for (const form of document.querySelectorAll("form[data-auto]")) {
    form.addEventListener("change", (event) => { if (event.target.tagName === "SELECT") form.submit(); });
    for (const button of form.querySelectorAll("button")) button.hidden = !form.querySelector("[data-search]");
  }

  for (const form of document.querySelectorAll("form[data-confirm]")) {
    form.addEventListener("submit", (event) => { if (!confirm(form.dataset.confirm)) event.preventDefault(); });
  }

  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      const field = document.querySelector("[data-search]");
      if (field) { event.preventDefault(); field.focus(); }
    }
  });
})();
