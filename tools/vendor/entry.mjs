export { select } from "d3-selection";
export { zoom, zoomIdentity } from "d3-zoom";
export { default as KDBush } from "kdbush";
