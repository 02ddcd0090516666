// Elements of a page.

const Elements = {
  get: (id) => document.getElementById(id),

  // A new element with properties, attributes and listeners (`onclick`).
  make(tag, given = {}, ...children) {
    const element = document.createElement(tag);
    for (const [key, value] of Object.entries(given)) {
      if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
      else if (key in element) element[key] = value;
      else element.setAttribute(key, value);
    }
    element.append(...children);
    return element;
  },

  // A paragraph whose text between backticks is code.
  prose(text, given = {}) {
    const parts = text.split(/`([^`]+)`/).map((part, at) => (at % 2 === 1 ? Elements.make("code", { textContent: part }) : part));
    return Elements.make("p", given, ...parts);
  },

  // Fills a list of choices with pairs of value and name.
  choice(select, options, chosen) {
    select.replaceChildren(...options.map(([value, name]) => (
      Elements.make("option", { value, textContent: name, selected: value === chosen })
    )));
  },
};
