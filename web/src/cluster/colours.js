// Nodes and series by number: the same colour in the picture, the strips and the charts. style.css has them as --c0 … --c7.
export function colourOf(index) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--c${index % 8}`).trim() || "#888";
}
