// Repeating the requests that keep a view up to date.

/**
 * Runs a function now and again after each pause, until the signal ends. It rests while the page is
 * hidden.
 * @param {number} milliseconds
 * @param {AbortSignal} signal
 * @param {() => Promise<void>} work
 */
export async function every(milliseconds, signal, work) {
  await work();
  while (!signal.aborted) {
    await new Promise((resolve) => setTimeout(resolve, milliseconds));
    if (!signal.aborted && !document.hidden) await work();
  }
}
