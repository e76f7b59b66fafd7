//! What becomes of a plugin, by words.

use super::Chat;

#[test]
fn a_plugin_is_brought_and_what_became_of_it_is_told() {
    let mut chat = Chat::default();
    let install = "Install https://git.home/tea";
    let said = chat.say(install);
    for words in ["`tea` serves.", "`run brew of tea`: Brews.", "key `sugar`: Spoons.", "Buy tea."]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(chat.steps.len(), 2, "it is offered before it is permitted: {:?}", chat.steps);
    let said = chat.say(&format!("{install} with the internet"));
    assert!(said.contains("`tea`: its init script failed"), "{said}");
    assert_eq!(chat.say("Update tea"), "`tea` is the newest already.");
    // It may do what it was permitted before.
    assert_eq!(chat.say("Update coffee"), "`coffee` serves.");
    assert_eq!(chat.say("Roll back tea"), "`tea`: a while");
    assert_eq!(chat.say("Set sugar of tea to 2"), "`tea` has its `sugar` now.");
    assert_eq!(chat.say("Remove the plugin tea"), "`tea` is gone, with its files and its keys.");
    let said = chat.say("Install https://git.home/coffee");
    assert_eq!(said, "That did not work: there is no repository");
    chat.world.owner_says_no = true;
    assert_eq!(chat.say(install), "I left it as it is: the owner said no");
}
