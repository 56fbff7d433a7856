import { cancelAtRandomMoments } from "./cancel-suite.js";

cancelAtRandomMoments(1000);
