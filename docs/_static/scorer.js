/* Pages that answer questions come first in the search; records of measurements and of development come last. */
var Scorer = {
  score: function (result) {
    const [name, title, anchor, about, score, file, kind] = result;
    const weight = [
      [/^(start|how-to)\//, 1.5], [/^guide\//, 1.6], [/^reference\//, 1.4], [/^gallery\//, 0.9], [/^coming-from\//, 1],
      [/^generated\/(api|commands)\//, 1], [/^(generated|results|papers|development|decisions)/, 0.3], [/^background\//, 0.7],
    ].find(([where]) => where.test(name));
    return score * (weight ? weight[1] : 1);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
