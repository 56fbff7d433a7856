export { sendInput, recordAnswer, requestCancel } from "./answers.js";
