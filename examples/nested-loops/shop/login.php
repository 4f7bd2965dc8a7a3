<?php
$user = $_POST['user'];
$found = $db->query("SELECT id, hash FROM users WHERE name = '$user'");
if ($found && password_verify($_POST['password'], $found['hash'])) {
    $_SESSION['user'] = $found['id'];
}
