export default {
  crawlAgain: "Read it again",
  crawlLimit: { one: "at most {n} page", other: "at most {n} pages" },
  crawlOnePage: "one page",
  crawlWithout: "without {patterns}",
  robotsAllows: "robots.txt forbids none of the pages that were found.",
  robotsForbids: { one: "robots.txt forbids {n} page, which was not read.", other: "robots.txt forbids {n} pages, which were not read." },
  robotsWhich: "Show which",
};
