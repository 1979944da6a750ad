// The client's packages use Node's Buffer also in their browser build; a page
// brings its own. The bundler puts this wherever Buffer is used.
export { Buffer } from "buffer/";
