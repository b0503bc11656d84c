/** Map. */
import { h } from "../dom.js";
import { say } from "../words.js";

export const mapView = () => h("div.page", { key: "map" }, h("h1", null, say("map")));
