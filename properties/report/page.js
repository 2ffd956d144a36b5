"use strict";
// Finding claims, and the language, kept in the address: #claim.id?lang=zh&q=words&verdict=holds
(() => {
  const root = document.documentElement;
  const form = document.getElementById("finder");
  const found = document.getElementById("found");
  const everything = document.getElementById("everything");
  const languages = document.querySelectorAll("input[name=language]");
  const chapters = [...document.querySelectorAll(".chapter")];
  const claims = [...document.querySelectorAll(".claim")];
  const rows = [...document.querySelectorAll("tr[data-claim]")];
  const facets = ["chapter", "verdict", "state", "device", "environment"];
  const fields = ["q", ...facets];
  const titles = { en: document.title, zh: document.querySelector("h1").dataset.zh };
  const english = new Map([...document.querySelectorAll("option[data-zh]")].map((each) => [each, each.text]));
  const texts = new Map();
  let state = {};
  let here = "";

  const text = (claim) => {
    if (!texts.has(claim)) {
      const said = [...claim.querySelectorAll(".says")].map((each) => each.textContent);
      texts.set(claim, [claim.id, ...said].join(" ").toLowerCase());
    }
    return texts.get(claim);
  };

  const read = (hash) => {
    const [anchor, query] = hash.replace(/^#/, "").split("?");
    const asked = new URLSearchParams(query || "");
    const known = ["lang", ...fields].filter((name) => asked.get(name));
    return { anchor, asked: query !== undefined, state: Object.fromEntries(known.map((name) => [name, asked.get(name)])) };
  };

  const address = (anchor) => {
    const query = new URLSearchParams(Object.entries(state)).toString();
    return query ? `#${anchor}?${query}` : anchor ? `#${anchor}` : location.pathname + location.search;
  };

  // The entry is marked as ours, to tell going back from following a link.
  const remember = () => history.replaceState({ assay: true }, "", address(here));

  const both = (en, zh) => {
    const parts = [document.createElement("span"), document.createElement("span")];
    parts[0].className = "en";
    parts[0].textContent = en;
    parts[1].lang = "zh-Hans";
    parts[1].textContent = zh;
    return parts;
  };

  // How long ago each run was, on the day of reading.
  document.querySelectorAll("time").forEach((time) => {
    const days = Math.floor((Date.now() - Date.parse(time.dateTime)) / 864e5);
    if (days > 0) time.append(...both(days === 1 ? ", 1 day ago" : `, ${days} days ago`, `，${days} 天前`));
  });

  const matches = (claim, words) =>
    facets.every((name) => !state[name] || claim.dataset[name].split(" ").includes(state[name])) &&
    words.every((word) => text(claim).includes(word));

  const speak = (language) => {
    root.lang = language === "zh" ? "zh-Hans" : "en";
    document.title = titles[language];
    languages.forEach((each) => { each.checked = each.value === language; });
    english.forEach((said, option) => { option.text = language === "zh" ? option.dataset.zh : said; });
  };

  // Shows what the state asks for. The claim that the address names is shown in any case, so that no link leads nowhere.
  const show = () => {
    const words = (state.q || "").toLowerCase().split(/\s+/).filter(Boolean);
    const narrowed = fields.some((name) => state[name]);
    let count = 0;
    let kept = false;
    claims.forEach((claim) => {
      const fits = matches(claim, words);
      const named = claim.id === here;
      count += fits;
      kept = kept || (named && !fits);
      claim.hidden = !fits && !named;
      claim.classList.toggle("here", named);
    });
    chapters.forEach((chapter) => { chapter.hidden = !chapter.querySelector(".claim:not([hidden])"); });
    rows.forEach((row) => { row.hidden = document.getElementById(row.dataset.claim).hidden; });
    root.classList.toggle("narrowed", narrowed);
    everything.hidden = !narrowed;
    const also = kept ? [", and the one that the address names", "，另有地址所指的一条"] : ["", ""];
    if (narrowed && count) {
      found.replaceChildren(
        ...both(`${count} of ${claims.length} claims${also[0]}`, `${claims.length} 条论断中的 ${count} 条${also[1]}`));
    } else if (narrowed) {
      found.replaceChildren(
        ...both(`No claim fits${also[0]}. Show all to start again.`, `没有符合的论断${also[1]}。可显示全部，重新查找。`));
    } else if (found.textContent) {
      found.replaceChildren(...both(`All ${claims.length} claims`, `全部 ${claims.length} 条论断`));
    }
  };

  const fill = () => fields.forEach((name) => { form.elements[name].value = state[name] || ""; });

  const go = (target) => {
    if (!target) return;
    target.scrollIntoView();
    target.tabIndex = -1;
    target.focus({ preventScroll: true });
  };

  const arrive = () => {
    const target = read(location.hash);
    const back = history.state && history.state.assay;
    here = target.anchor;
    if (back || target.asked) {
      state = target.state;
      fill();
      speak(state.lang === "zh" ? "zh" : "en");
    }
    show();
    if (!back) {
      go(document.getElementById(here));
      remember();
    }
  };

  let later = 0;
  form.addEventListener("input", () => {
    fields.forEach((name) => {
      delete state[name];
      const value = form.elements[name].value.trim();
      if (value) state[name] = value;
    });
    here = "";
    show();
    clearTimeout(later);
    later = setTimeout(remember, 150);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    go(claims.find((claim) => !claim.hidden));
  });
  everything.addEventListener("click", () => {
    fields.forEach((name) => delete state[name]);
    fill();
    show();
    remember();
    form.elements.q.focus();
  });
  languages.forEach((each) => each.addEventListener("change", () => {
    delete state.lang;
    if (each.value === "zh") state.lang = "zh";
    speak(each.value);
    remember();
  }));
  document.addEventListener("click", (event) => {
    const cell = event.target.closest("a[data-find]");
    if (!cell || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    const language = state.lang;
    state = Object.fromEntries(new URLSearchParams(cell.dataset.find));
    if (language) state.lang = language;
    here = `c${state.chapter}`;
    history.pushState({ assay: true }, "", address(here));
    fill();
    show();
    go(document.getElementById(here));
  });
  addEventListener("hashchange", arrive);

  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((each) => { each.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((each) => { each.open = false; }));

  form.hidden = false;
  const start = read(location.hash);
  state = start.state;
  here = start.anchor;
  fill();
  speak(state.lang === "zh" ? "zh" : "en");
  show();
  history.replaceState({ assay: true }, "");
  if (start.asked && here) go(document.getElementById(here));
})();
