export default {
};
