// Runs before the first paint, so that the page never flashes in the other theme.
"use strict";
{
  const chosen = localStorage.getItem("sluice-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
}
