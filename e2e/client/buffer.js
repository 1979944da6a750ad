// The browser build of the client's packages also uses Node's Buffer, which a page must provide.
// The bundler inserts this module wherever Buffer is used.
export { Buffer } from "buffer/";
