// What is drawn over the points: lines to partners, rings, labels, and the lasso.

import { rgb } from "./colors.js";

const css = (variable, alpha = 1) => `rgb(${rgb(variable).join(" ")} / ${alpha})`;

export function drawMarks(space) {
  const context = space.marks.getContext("2d");
  const { lines, rings, labels, polygon } = space.shown;
  context.setTransform(space.ratio, 0, 0, space.ratio, 0, 0);
  context.clearRect(0, 0, space.width, space.height);
  if (polygon) drawPolygon(context, polygon.map((place) => space.screen(place)));
  for (const { from, to, known } of lines) {
    context.beginPath();
    context.moveTo(...space.screen(from));
    context.lineTo(...space.screen(to));
    context.strokeStyle = css("--soft", known ? 0.75 : 0.4);
    context.lineWidth = 1.2;
    context.setLineDash(known ? [] : [3, 4]);
    context.stroke();
  }
  context.setLineDash([]);
  for (const { place, strong } of rings) {
    const [left, top] = space.screen(place);
    const radius = Math.max(6, space.pointSize() * (strong ? 1.1 : 0.8));
    for (const [width, color] of [[strong ? 5 : 3.5, css("--card")], [strong ? 2.5 : 1.5, css(strong ? "--accent" : "--ink")]]) {
      context.beginPath();
      context.arc(left, top, radius, 0, 2 * Math.PI);
      context.lineWidth = width;
      context.strokeStyle = color;
      context.stroke();
    }
  }
  drawLabels(context, space, labels);
}

function drawPolygon(context, vertices) {
  context.beginPath();
  vertices.forEach((vertex) => context.lineTo(...vertex));
  context.closePath();
  context.fillStyle = css("--accent", 0.08);
  context.fill();
  context.strokeStyle = css("--accent");
  context.lineWidth = 1.5;
  context.stroke();
}

// Draw labels beside their points, the first ones first; those that would overlap are left out.
function drawLabels(context, space, labels) {
  const font = getComputedStyle(document.body).fontFamily;
  const taken = [];
  for (const { place, text, strong } of labels) {
    context.font = `${strong ? "650 13px" : "500 12px"} ${font}`;
    const [left, top] = space.screen(place);
    const width = context.measureText(text).width;
    if (left < 0 || top < 0 || left > space.width || top > space.height) continue;
    const gap = Math.max(9, space.pointSize() + 4);
    const options = [[left + gap, top], [left - gap - width, top], [left - width / 2, top - gap - 6], [left - width / 2, top + gap + 6]];
    const box = options.map(([x, y]) => [x - 3, y - 9, x + width + 3, y + 9])
      .find((one) => one[0] > 2 && one[2] < space.width - 2 && one[1] > 2 && one[3] < space.height - 2
        && !taken.some((other) => one[0] < other[2] && other[0] < one[2] && one[1] < other[3] && other[1] < one[3]));
    if (!box) continue;
    taken.push(box);
    context.textBaseline = "middle";
    context.lineJoin = "round";
    context.lineWidth = 4;
    context.strokeStyle = css("--card", 0.92);
    context.strokeText(text, box[0] + 3, box[1] + 9);
    context.fillStyle = css(strong ? "--ink" : "--soft");
    context.fillText(text, box[0] + 3, box[1] + 9);
  }
}
