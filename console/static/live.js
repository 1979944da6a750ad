// Repeating what keeps a view up to date.

/**
 * Runs a function now and again after each pause, until the signal ends. It rests while the page is
 * hidden.
 * @param {number} milliseconds
 * @param {AbortSignal} signal
 * @param {() => Promise<void>} work
 */
export async function every(milliseconds, signal, work) {
  await work();
  const timer = setInterval(() => {
    if (!document.hidden) void work();
  }, milliseconds);
  if (signal.aborted) clearInterval(timer);
  signal.addEventListener("abort", () => clearInterval(timer));
}
