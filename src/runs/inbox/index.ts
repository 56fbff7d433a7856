export { leaveInput, recordAnswer, requestCancel } from "./answers.js";
